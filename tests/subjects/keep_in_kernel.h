// Keeps a pointer where only the kernel has it: the argument names the place. allocate() returns it.
#pragma once

#include <mqueue.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <string>

#include "tests/subjects/check.h"

inline int g_system_v = 0;

// Removed in a handler of exit(), which runs after the search: what is of System V stays until the machine ends.
SUBJECT_FUNCTION void keep_in_system_v(const std::string& how, void* (*allocate)()) {
  if (how == "msg") {
    g_system_v = msgget(IPC_PRIVATE, 0600);
    atexit([] { msgctl(g_system_v, IPC_RMID, nullptr); });
    struct {
      long type;
      void* memory;
    } message = {1, allocate()};
    if (msgsnd(g_system_v, &message, sizeof(message.memory), 0) != 0) abort();
  }
  if (how == "detached") {
    g_system_v = shmget(IPC_PRIVATE, 4096, 0600);
    atexit([] { shmctl(g_system_v, IPC_RMID, nullptr); });
    void* memory = shmat(g_system_v, nullptr, 0);
    if (memory == reinterpret_cast<void*>(-1)) abort();
    *static_cast<void**>(memory) = allocate();
    shmdt(memory);
  }
}

SUBJECT_FUNCTION void keep_in_kernel(const std::string& how, void* (*allocate)()) {
  if (how == "pipe" || how == "sockets") {
    int ends[2] = {};
    if ((how == "pipe" ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) != 0) abort();
    void* pointer = allocate();
    if (write(ends[1], &pointer, sizeof(pointer)) != sizeof(pointer)) abort();
  }
  if (how == "timer-value") {
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    event.sigev_value.sival_ptr = allocate();
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) abort();
  }
  if (how == "queued-signal") {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    sigval value = {};
    value.sival_ptr = allocate();
    if (sigqueue(getpid(), SIGRTMIN + 1, value) != 0) abort();
  }
  if (how == "mq" || how == "mq-notify") {
    const std::string name = "/culprit." + std::to_string(getpid());
    struct mq_attr attributes = {};
    attributes.mq_maxmsg = 1;
    attributes.mq_msgsize = sizeof(void*);
    const mqd_t queue = mq_open(name.c_str(), O_CREAT | O_RDWR, 0600, &attributes);
    mq_unlink(name.c_str());
    if (how == "mq-notify") {
      sigevent event = {};
      event.sigev_notify = SIGEV_SIGNAL;
      event.sigev_signo = SIGUSR1;
      event.sigev_value.sival_ptr = allocate();
      if (mq_notify(queue, &event) != 0) abort();
      return;
    }
    void* pointer = allocate();
    if (mq_send(queue, reinterpret_cast<char*>(&pointer), sizeof(pointer), 0) != 0) abort();
  }
  if (how == "eventfd" || how == "memfd") {
    const int keeper = how == "eventfd" ? eventfd(0, 0) : memfd_create("culprit", 0);
    void* pointer = allocate();
    if (write(keeper, &pointer, sizeof(pointer)) != sizeof(pointer)) abort();
  }
  keep_in_system_v(how, allocate);
}
