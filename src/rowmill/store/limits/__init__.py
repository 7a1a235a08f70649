"""What limits keep in the database, and the statements that grant and take back, each under one row's lock."""
