/* prometheus/detail/core_export.h, which prometheus-cpp's own build generates: nothing is exported. */
#define PROMETHEUS_CPP_CORE_EXPORT
