"""What people do by hand: pause, trigger, cancel, backfill and the rest."""
