"""What is read when: blocks drawn by what files say, look by look."""
