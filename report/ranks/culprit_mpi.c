/* The MPI plugin of `culprit merge`:
 *
 *     mpicc -O2 -shared -fPIC -o culprit_mpi.so culprit_mpi.c
 *
 * It goes to lib/culprit beside the command, or where CULPRIT_MPI says. Waiting ranks sleep between two looks: MPI_Recv
 * would keep a processor busy that another rank of this machine needs for its dumps.
 */
#include "culprit_mpi.h"

#include <mpi.h>
#include <stdlib.h>
#include <time.h>

enum { kSize = 1, kBytes = 2 };

/* MPI counts in int. */
static const unsigned long long kPiece = 1ULL << 28;

static void pause_between_looks(long* nanoseconds) {
  const struct timespec pause = {0, *nanoseconds};
  nanosleep(&pause, 0);
  if (*nanoseconds < 5000000) *nanoseconds *= 2;
}

static int wait_for(MPI_Request* request) {
  long pause = 10000;
  for (;;) {
    int done = 0;
    if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return 1;
    if (done) return 0;
    pause_between_looks(&pause);
  }
}

/* Below srun with another plugin than pmix, MPI_Init() of Open MPI ends the process. */
static int can_begin(void) {
#ifdef OPEN_MPI
  return getenv("SLURM_STEP_ID") == 0 || getenv("PMIX_RANK") != 0 || getenv("OMPI_COMM_WORLD_RANK") != 0;
#else
  return 1;
#endif
}

static int begin(int* rank, int* size) {
  int provided = 0;
  if (!can_begin()) return CULPRIT_MPI_NO_SERVER;
  if (MPI_Init_thread(0, 0, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return 1;
  return MPI_Comm_rank(MPI_COMM_WORLD, rank) != MPI_SUCCESS || MPI_Comm_size(MPI_COMM_WORLD, size) != MPI_SUCCESS;
}

static int send_piece(int to, int tag, const void* bytes, unsigned long long count) {
  MPI_Request request;
  if (MPI_Isend(bytes, (int)count, MPI_BYTE, to, tag, MPI_COMM_WORLD, &request) != MPI_SUCCESS) return 1;
  return wait_for(&request);
}

static int send(int to, const void* bytes, unsigned long long count) {
  const char* at = bytes;
  if (send_piece(to, kSize, &count, sizeof(count)) != 0) return 1;
  while (count != 0) {
    const unsigned long long piece = count < kPiece ? count : kPiece;
    if (send_piece(to, kBytes, at, piece) != 0) return 1;
    at += piece;
    count -= piece;
  }
  return 0;
}

static int receive_piece(int from, int tag, void* bytes, unsigned long long count) {
  MPI_Request request;
  if (MPI_Irecv(bytes, (int)count, MPI_BYTE, from, tag, MPI_COMM_WORLD, &request) != MPI_SUCCESS) return 1;
  return wait_for(&request);
}

static int receive_size(int from, unsigned long long* count) {
  return receive_piece(from, kSize, count, sizeof(*count));
}

static int receive(int from, void* bytes, unsigned long long count) {
  char* at = bytes;
  while (count != 0) {
    const unsigned long long piece = count < kPiece ? count : kPiece;
    if (receive_piece(from, kBytes, at, piece) != 0) return 1;
    at += piece;
    count -= piece;
  }
  return 0;
}

static void abort_all(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

static void end(void) { MPI_Finalize(); }

const struct culprit_mpi* culprit_mpi_plugin(void) {
  static const struct culprit_mpi plugin = {CULPRIT_MPI_VERSION, begin, send, receive_size, receive, abort_all, end};
  return &plugin;
}
