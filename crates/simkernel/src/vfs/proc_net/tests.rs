//! What the tables of `/proc/net` show of sockets.
