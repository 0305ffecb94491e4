"""What is put on machines: lines for cron, units for systemd, manifests for Kubernetes; and which of them to choose."""
