"""How facts are told: to people in words and sentences, to programs as documents. For the command line and the page."""
