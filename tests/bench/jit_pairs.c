// The native methods of JitPairs.java.
#include <cuda.h>
#include <jni.h>

JNIEXPORT void JNICALL Java_JitPairs_start(JNIEnv* environment, jclass type) {
  CUcontext context;
  cuInit(0);
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
}

JNIEXPORT jlong JNICALL Java_JitPairs_allocate(JNIEnv* environment, jclass type, jlong bytes) {
  CUdeviceptr memory = 0;
  cuMemAllocAsync(&memory, (size_t)bytes, 0);
  return (jlong)memory;
}

JNIEXPORT void JNICALL Java_JitPairs_release(JNIEnv* environment, jclass type, jlong memory) {
  cuMemFreeAsync((CUdeviceptr)memory, 0);
}
