#!/usr/bin/env bash
# For manual_test.py, which sources it: gives `culprit top TARGET` a terminal of tmux, and prints the screen once it has
# rates. Other commands are as they are.
culprit() {
  if [ "$1" != top ] || [ $# -ne 2 ]; then
    command culprit "$@"
    return
  fi
  local screen=""
  tmux -S ./tmux -f /dev/null new-session -d -x 96 -y 16 \
    env LC_ALL=C.UTF-8 TERM=tmux-256color culprit top "$2" </dev/null
  for _ in $(seq 300); do
    screen=$(tmux -S ./tmux capture-pane -p)
    if [[ $screen == *"MiB/min"*"watched.cpp"* ]]; then break; fi
    sleep 0.1
  done
  tmux -S ./tmux kill-server
  echo "$screen"
}
