// The images of this folder, from CUDA 13.0:
//
//   nvcc -arch=sm_90 -cubin -o plain.cubin variables.cu
//   nvcc -arch=compute_80 -ptx -o plain.ptx variables.cu
//   nvcc -gencode arch=compute_80,code=[compute_80,sm_80] -gencode arch=compute_90,code=sm_90 -fatbin \
//        --compress-mode=size -o zstd.fatbin variables.cu
//   nvcc -gencode arch=compute_80,code=compute_80 -fatbin --compress-mode=speed -o lz4.fatbin variables.cu
//   nvcc -arch=sm_90 -cubin -DHEAP -o heap.cubin variables.cu
//   nvcc -arch=compute_80 -ptx -DHEAP -o heap.ptx variables.cu
struct Shape {
  virtual __device__ int sides() { return 3; }
};
__device__ int* g_table[4];
static __device__ int* g_static;
__device__ int* g_unused;
namespace {
__device__ int* g_hidden;
}
__constant__ int* c_table[4];
__managed__ int* m_pointer;
__device__ int g_small;
__device__ Shape* g_shape;

__global__ void keep(int* pointer) {
  __shared__ int* shared[8];
  static int* in_function;
  shared[threadIdx.x % 8] = pointer;
  __syncthreads();
  in_function = shared[7 - threadIdx.x % 8];
  g_table[threadIdx.x % 4] = pointer;
  g_static = g_hidden = pointer;
  m_pointer = c_table[threadIdx.x % 4];
  g_small = g_shape == nullptr ? 1 : g_shape->sides();
#ifdef HEAP
  g_shape = new Shape;
#endif
}
