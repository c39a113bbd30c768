#include "interpose/inside_python/raw_pointers.h"

#include <cstddef>

#include "interpose/base/keep_errno.h"
#include "interpose/causes/live_handles.h"
#include "interpose/inside_python/frozen_copy.h"
#include "interpose/inside_python/interpreter.h"
#include "interpose/inside_python/object_layout.h"
#include "interpose/process/process.h"
#include "interpose/system/os.h"

namespace culprit {
namespace {

// Include/longobject.h, Include/cpython/longintrepr.h: digits of 30 bits, after the field with their number.
constexpr std::size_t kDigitCountOffset = 16;
constexpr std::size_t kDigitsOffset = 24;
constexpr std::uint64_t kMostDigits = 3;  // of an address
constexpr int kDigitBits = 30;
constexpr int kTagBits = 3;

// Modules/_ctypes/ctypes.h, CDataObject.
constexpr std::size_t kDataOffset = 16;
constexpr std::size_t kDataSizeOffset = 40;
constexpr std::uint64_t kMostData = 4096;

constexpr std::uint64_t kWord = sizeof(std::uint64_t);
constexpr int kMostBases = 16;

bool is_of_ctypes(PyObject* object) {
  PyObject* type = type_of(object);
  for (int i = 0; i < kMostBases && type != nullptr; ++i) {
    const char* name = type_name(type);
    if (name != nullptr && __builtin_strcmp(name, "_ctypes._CData") == 0) return true;
    type = base_of(type);
  }
  return false;
}

}  // namespace

RawPointers::~RawPointers() {
  if (handles_.size() != 0) handles_.release();
}

void RawPointers::collect() {
  Process* process = process_of_records();
  if (process == nullptr || !process->options.search_holders ||
      !collect_live_handles(*process, &handles_, bytes_of_records()))
    return;
  constexpr unsigned long kTwoDigits = 1UL << (kDigitBits + 10);
  const PythonRef number(the_interpreter().PyLong_FromUnsignedLong(kTwoDigits));
  tagged_digits_ = number && field<std::uint64_t>(number.get(), kDigitCountOffset) >> kTagBits == 2;
}

std::uint64_t RawPointers::in(PyObject* object) const {
  const std::uint64_t flags = flags_of(object);
  if ((flags & kIsInteger) != 0) return in_integer(object);
  // Python's own containers and texts: their references are nodes, and their bytes are no addresses.
  if ((flags & kIsBuiltIn) != 0) return 0;
  const std::uint64_t found = in_words(fields_of(object), field_count(object));
  return found != 0 || !is_of_ctypes(object) ? found : in_memory_of_ctypes(object);
}

std::uint64_t RawPointers::in_integer(PyObject* object) const {
  const auto word = field<std::uint64_t>(object, kDigitCountOffset);
  const std::uint64_t count = tagged_digits_ ? word >> kTagBits : word;
  if (count == 0 || count > kMostDigits || (tagged_digits_ && (word & 3) != 0)) return 0;  // 3: the sign
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < count; ++i)
    value |= std::uint64_t{field<std::uint32_t>(object, kDigitsOffset + 4 * i)} << (kDigitBits * i);
  return handles_.has(value) ? value : 0;
}

std::uint64_t RawPointers::in_words(const std::uint64_t* words, std::uint64_t count) const {
  for (std::uint64_t i = 0; i < count; ++i) {
    if (handles_.has(words[i])) return words[i];
  }
  return 0;
}

std::uint64_t RawPointers::in_memory_of_ctypes(PyObject* object) const {
  std::uint64_t words[kMostFields];
  auto left = field<std::uint64_t>(object, kDataSizeOffset);
  if (left > kMostData) left = kMostData;
  for (auto from = field<std::uint64_t>(object, kDataOffset); left >= kWord;) {
    const std::uint64_t bytes = left < sizeof(words) ? left / kWord * kWord : sizeof(words);
    if (os.read_own_memory(words, from, bytes) != static_cast<std::int64_t>(bytes)) return 0;
    const std::uint64_t found = in_words(words, bytes / kWord);
    if (found != 0) return found;
    from += bytes;
    left -= bytes;
  }
  return 0;
}

std::uint64_t RawPointers::bytes_of(std::uint64_t handle) const {
  std::uint64_t bytes = 0;
  if (handles_.size() == 0) return 0;
  handles_.visit_missing(handle, [&](format::Ref allocation, std::uint32_t) {
    bytes = process_of_records()->dump.at<format::AllocationRecord>(allocation)->bytes;
  });
  return bytes;
}

PyObject* count_pointers(PyObject*, PyObject*) {
  KeepErrno keep;
  RawPointers pointers;
  pointers.collect();
  return the_interpreter().PyLong_FromLong(static_cast<long>(pointers.count()));
}

PyObject* memory_sizes(PyObject*, PyObject* arguments) {
  KeepErrno keep;
  const Interpreter& python = the_interpreter();
  PyObject* given = python.PyTuple_GetItem(arguments, 0);
  const char* addresses = given == nullptr ? nullptr : python.PyBytes_AsString(given);
  if (addresses == nullptr) return nullptr;
  RawPointers pointers;
  pointers.collect();
  const long count = python.PyBytes_Size(given) / static_cast<long>(kWord);
  PyObject* sizes = python.PyBytes_FromStringAndSize(nullptr, count * static_cast<long>(kWord));
  char* words = sizes == nullptr ? nullptr : python.PyBytes_AsString(sizes);
  for (long i = 0; words != nullptr && i < count; ++i) {
    std::uint64_t address;
    __builtin_memcpy(&address, addresses + i * static_cast<long>(kWord), kWord);
    const std::uint64_t bytes = pointers.bytes_of(address);
    __builtin_memcpy(words + i * static_cast<long>(kWord), &bytes, kWord);
  }
  return sizes;
}

}  // namespace culprit
