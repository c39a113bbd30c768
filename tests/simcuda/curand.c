/* The five functions of libcurand that PyCUDA's extension is linked with, so that it can be loaded where there is no
   toolkit. Each says that nothing was initialized. */
enum { kNotInitialized = 101 };

int curandGetVersion(int* version) {
  *version = 0;
  return kNotInitialized;
}
int curandGetDirectionVectors32(void) { return kNotInitialized; }
int curandGetDirectionVectors64(void) { return kNotInitialized; }
int curandGetScrambleConstants32(void) { return kNotInitialized; }
int curandGetScrambleConstants64(void) { return kNotInitialized; }
