"""Shell scripts, Makefiles and Ansible tasks: what they start, and what they do to crontabs."""
