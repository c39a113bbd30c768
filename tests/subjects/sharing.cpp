// Two ranks: rank 0 allocates 512 MiB and exports them, rank 1 opens them.
//
//     sharing METHOD ORDER
//
// METHOD: ipc, descriptor (virtual memory management), pool. ORDER: what happens once it is open.
//     stays     rank 0 frees it, rank 1 never closes it
//     returned  rank 0 frees it, then rank 1 closes it
//     closed    rank 1 closes it, then rank 0 frees it
//     open      neither
//
// Prints how many MiB came back on the device when rank 0 freed, when rank 1 closed, and when rank 1 ended. Exit code
// 77: this driver does not share memory by that method.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/subjects/check.h"

namespace {

constexpr std::size_t kBytes = std::size_t{512} << 20;

struct Message {
  char handle[64];
  int descriptor = -1;
};

void send_message(int socket, const Message& message) {
  iovec data = {const_cast<char*>(message.handle), sizeof(message.handle)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (message.descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &message.descriptor, sizeof(int));
  }
  if (sendmsg(socket, &header, 0) != sizeof(message.handle)) exit(4);
}

// Exit code 77 when the other process has ended.
Message receive_message(int socket) {
  Message message;
  iovec data = {message.handle, sizeof(message.handle)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  if (recvmsg(socket, &header, 0) != sizeof(message.handle)) exit(77);
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) memcpy(&message.descriptor, CMSG_DATA(rights), sizeof(int));
  return message;
}

void step_done(int socket) { send_message(socket, {}); }

// Ends the program with exit code 77 unless `status` is 0.
void supported(int status) {
  if (status != 0) exit(77);
}

CUmemAllocationProp properties() {
  CUmemAllocationProp wanted = {};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return wanted;
}

// The memory of one process, by one method.
struct Shared {
  std::string method;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  cudaMemPool_t pool = nullptr;
};

CUdeviceptr* address_of(Shared* shared) { return &shared->address; }
void* pointer_of(const Shared& shared) { return reinterpret_cast<void*>(shared.address); }

}  // namespace

SUBJECT_FUNCTION void allocate_here(Shared* shared) {
  if (shared->method == "ipc") {
    CHECKED(cuMemAlloc(address_of(shared), kBytes));
  } else if (shared->method == "descriptor") {
    const CUmemAllocationProp wanted = properties();
    supported(cuMemCreate(&shared->handle, kBytes, &wanted, 0));
  } else {
    cudaMemPoolProps wanted = {};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    wanted.location.type = cudaMemLocationTypeDevice;
    supported(cudaMemPoolCreate(&shared->pool, &wanted));
    void* pointer = nullptr;
    CHECKED(cudaMallocFromPoolAsync(&pointer, kBytes, shared->pool, nullptr));
    CHECKED(cudaDeviceSynchronize());
    shared->address = reinterpret_cast<CUdeviceptr>(pointer);
  }
}

SUBJECT_FUNCTION Message export_here(const Shared& shared) {
  Message message = {};
  if (shared.method == "ipc") {
    supported(cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(message.handle), shared.address));
  } else if (shared.method == "descriptor") {
    supported(
        cuMemExportToShareableHandle(&message.descriptor, shared.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  } else {
    supported(
        cudaMemPoolExportToShareableHandle(&message.descriptor, shared.pool, cudaMemHandleTypePosixFileDescriptor, 0));
    CHECKED(cudaMemPoolExportPointer(reinterpret_cast<cudaMemPoolPtrExportData*>(message.handle), pointer_of(shared)));
  }
  return message;
}

SUBJECT_FUNCTION void free_here(const Shared& shared) {
  if (shared.method == "ipc") {
    CHECKED(cuMemFree(shared.address));
  } else if (shared.method == "descriptor") {
    CHECKED(cuMemRelease(shared.handle));
  } else {
    CHECKED(cudaFreeAsync(pointer_of(shared), nullptr));
    CHECKED(cudaDeviceSynchronize());
    CHECKED(cudaMemPoolDestroy(shared.pool));  // NVIDIA's driver trims no exported memory
  }
}

SUBJECT_FUNCTION void open_here(Shared* shared, Message* message) {
  if (shared->method == "ipc") {
    CUipcMemHandle handle;
    memcpy(&handle, message->handle, sizeof(handle));
    supported(cuIpcOpenMemHandle(address_of(shared), handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  } else if (shared->method == "descriptor") {
    void* descriptor = reinterpret_cast<void*>(static_cast<std::intptr_t>(message->descriptor));
    supported(cuMemImportFromShareableHandle(&shared->handle, descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CHECKED(cuMemAddressReserve(address_of(shared), kBytes, 0, 0, 0));
    CHECKED(cuMemMap(shared->address, kBytes, 0, shared->handle, 0));
  } else {
    void* descriptor = reinterpret_cast<void*>(static_cast<std::intptr_t>(message->descriptor));
    supported(cudaMemPoolImportFromShareableHandle(&shared->pool, descriptor, cudaMemHandleTypePosixFileDescriptor, 0));
    void* pointer = nullptr;
    CHECKED(
        cudaMemPoolImportPointer(&pointer, shared->pool, reinterpret_cast<cudaMemPoolPtrExportData*>(message->handle)));
    shared->address = reinterpret_cast<CUdeviceptr>(pointer);
  }
  if (message->descriptor >= 0) close(message->descriptor);
}

SUBJECT_FUNCTION void close_here(const Shared& shared) {
  if (shared.method == "ipc") {
    CHECKED(cuIpcCloseMemHandle(shared.address));
  } else if (shared.method == "descriptor") {
    CHECKED(cuMemUnmap(shared.address, kBytes));
    CHECKED(cuMemAddressFree(shared.address, kBytes));
    CHECKED(cuMemRelease(shared.handle));
  } else {
    CHECKED(cudaFreeAsync(pointer_of(shared), nullptr));
    CHECKED(cudaDeviceSynchronize());
    CHECKED(cudaMemPoolDestroy(shared.pool));
  }
}

namespace {

long free_mib() {
  std::size_t available = 0, total = 0;
  CHECKED(cudaMemGetInfo(&available, &total));
  return static_cast<long>(available >> 20);
}

void become_rank(const char* rank) {
  setenv("RANK", rank, 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("LOCAL_RANK", rank, 1);
}

int be_importer(int socket, const std::string& method, const std::string& order) {
  become_rank("1");
  Shared shared;
  shared.method = method;
  CHECKED(cudaFree(nullptr));
  Message message = receive_message(socket);
  open_here(&shared, &message);
  step_done(socket);
  receive_message(socket);
  if (order == "returned" || order == "closed") close_here(shared);
  step_done(socket);
  receive_message(socket);
  return 0;
}

int be_exporter(int socket, const std::string& method, const std::string& order, pid_t importer) {
  become_rank("0");
  Shared shared;
  shared.method = method;
  CHECKED(cudaFree(nullptr));
  allocate_here(&shared);
  const Message message = export_here(shared);
  send_message(socket, message);
  if (message.descriptor >= 0) close(message.descriptor);
  receive_message(socket);
  const long before = free_mib();
  if (order == "stays" || order == "returned") free_here(shared);
  const long freed = free_mib();
  step_done(socket);
  receive_message(socket);
  if (order == "closed") free_here(shared);
  const long closed = free_mib();
  step_done(socket);
  int status = 0;
  waitpid(importer, &status, 0);
  printf("%ld %ld %ld\n", freed - before, closed - freed, free_mib() - closed);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

}  // namespace

int main(int argc, char** argv) {
  int sockets[2];
  if (argc != 3 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) return 2;
  const pid_t importer = fork();
  close(sockets[importer == 0 ? 0 : 1]);
  if (importer == 0) return be_importer(sockets[1], argv[1], argv[2]);
  return be_exporter(sockets[0], argv[1], argv[2], importer);
}
