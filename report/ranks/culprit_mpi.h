/* The interface between the command and its MPI plugin, in C: the two may come from different compilers. */
#ifndef CULPRIT_MPI_H
#define CULPRIT_MPI_H

/* Another one when a member changes. */
#define CULPRIT_MPI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/* begin(): the launcher has nothing that this MPI finds its ranks by. */
#define CULPRIT_MPI_NO_SERVER 2

/* All functions but abort() and end() return 0 for success. */
struct culprit_mpi {
  int version;
  int (*begin)(int* rank, int* size);
  int (*send)(int to, const void* bytes, unsigned long long count);
  /* Waits for a message of the rank `from`; receive() then takes it. */
  int (*receive_size)(int from, unsigned long long* count);
  int (*receive)(int from, void* bytes, unsigned long long count);
  void (*abort)(int status);
  void (*end)(void);
};

const struct culprit_mpi* culprit_mpi_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
