"""A running simulation in ROS 2, over Zenoh, without ROS installed here."""
