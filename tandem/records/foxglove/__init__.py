"""A run for Foxglove and the viewers of ROS 2: poses as transforms, the scene as markers, and every topic of the record
beside them. In a file (`tandem export --to mcap`) and live (`tandem foxglove`)."""
