// Words of the program that the kernel keeps: a search for lost memory cannot read them.
#pragma once

namespace culprit {

enum class KernelHolds {
  kNothing,
  kPointers,
  kUnknown,
};

// Looks whether the kernel keeps words of the program: for epoll, io_uring, a timer, a signal or a map of BPF; data in
// a pipe or sockets of its own, in a message queue, in a memfd; the value of an eventfd; shared memory of System V that
// the process has detached. Files that are not mapped are not looked at. Changes errno. On the tracker's own stack
// only.
KernelHolds kernel_holds();

}  // namespace culprit
