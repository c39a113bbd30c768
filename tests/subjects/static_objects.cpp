// A library whose static objects register many handlers for the end of the process.
#include <array>
#include <string>
#include <utility>

struct Registered {
  Registered() = default;
  ~Registered() { text.clear(); }
  std::string text = "registered";
};

template <int kNumber>
struct Static {
  static inline Registered object;
};

template <int... kNumbers>
static void* addresses(std::integer_sequence<int, kNumbers...>) {
  static std::array<void*, sizeof...(kNumbers)> all = {&Static<kNumbers>::object...};
  return all.data();
}

extern "C" __attribute__((visibility("default"))) void* static_objects() {
  return addresses(std::make_integer_sequence<int, 50>());
}
