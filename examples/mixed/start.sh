#!/bin/sh
# Becomes the worker of this launch index: in Python, C++ and Go in turns. Arguments: python, the C++ and the Go program.
case $((FARANDOLE_LAUNCH_INDEX % 3)) in
  0) exec "$1" "$(dirname "$0")/rank.py" ;;
  1) exec "$2" ;;
  *) exec "$3" ;;
esac
