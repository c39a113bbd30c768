#include "interpose/python_stacks/python_hash.h"

#include "interpose/base/hash.h"
#include "interpose/base/placement.h"

namespace culprit {
namespace {

constexpr std::uint64_t kOdd = 0xff51afd7ed558ccdULL;
constexpr std::uint64_t kOtherOdd = 0x9e3779b97f4a7c15ULL;

std::uint64_t rotated(std::uint64_t value, int by) { return value << by | value >> (64 - by); }

// Distinguishes a code object from others at the same address at other times: by its version, else by the length,
// beginning, middle and end of its line table.
inline std::uint64_t identity_of(const PythonLayout& layout, std::uint64_t code) {
  if (layout.code.version != 0) {
    auto version = python_field<std::uint32_t>(code, layout.code.version);
    if (CULPRIT_LIKELY(version != 0)) return version;
  }
  auto table = python_field<std::uint64_t>(code, layout.code.line_table);
  auto bytes = python_field<std::uint64_t>(table, kPythonSizeOffset);
  std::uint64_t lines = bytes;
  if (CULPRIT_LIKELY(bytes >= 8)) {
    lines ^= python_field<std::uint64_t>(table, kPythonBytesOffset);
    lines = rotated(lines, 23) ^ python_field<std::uint64_t>(table, kPythonBytesOffset + (bytes - 8) / 2);
    lines = rotated(lines, 23) ^ python_field<std::uint64_t>(table, kPythonBytesOffset + bytes - 8);
  } else {
    for (std::uint64_t i = 0; i < bytes; ++i)
      lines = lines << 8 ^ python_field<std::uint8_t>(table, kPythonBytesOffset + i);
  }
  std::uint64_t places = code ^ rotated(python_field<std::uint64_t>(code, layout.code.name), 21) ^ rotated(table, 42) ^
                         static_cast<std::uint64_t>(python_field<std::uint32_t>(code, layout.code.first_line)) << 48;
  return places ^ lines * kOtherOdd;
}

// Only the multiplication by kOdd depends on the previous frame.
inline std::uint64_t with_frame(std::uint64_t hash, std::uint64_t identity, std::uint64_t instruction) {
  return rotated((hash ^ (identity + instruction * kOtherOdd)) * kOdd, 29);
}

// Marks the end of an evaluation loop: the frames of each loop have their own place among the native frames.
inline std::uint64_t with_end_of_loop(std::uint64_t hash) { return rotated(hash * kOdd, 29); }

std::uint64_t finished(std::uint64_t hash, int frames) {
  if (frames == 0) return 0;
  hash = mix(hash ^ static_cast<std::uint64_t>(frames));
  return hash != 0 ? hash : 1;
}

// 3.9 and 3.10: each frame has an object and an evaluation loop.
std::uint64_t hash_objects(const PythonLayout& layout, std::uint64_t frame, int depth) {
  std::uint64_t hash = 0;
  int frames = 0;
  for (; frame != 0 && frames < depth; ++frames) {
    if (!python_plausible(frame)) return 0;
    auto code = python_field<std::uint64_t>(frame, layout.frame_object.code);
    if (!python_plausible(code)) return 0;
    auto instruction = python_field<std::int32_t>(frame, layout.frame_object.instruction);
    hash = with_frame(hash, identity_of(layout, code), code + static_cast<std::uint64_t>(instruction));
    frame = python_field<std::uint64_t>(frame, layout.frame_object.previous);
  }
  return finished(hash, frames);
}

// From 3.11 on. `kKnown`: the layout as a compile-time constant; nullptr: use `any`.
template <const PythonLayout* kKnown>
std::uint64_t hash_frames(const PythonLayout& any, std::uint64_t frame, int depth) {
  const PythonLayout& layout = kKnown != nullptr ? *kKnown : any;
  std::uint64_t hash = 0;
  int frames = 0;
  for (; frame != 0 && frames < depth; frame = python_field<std::uint64_t>(frame, layout.frame.previous)) {
    if (!python_plausible(frame)) return 0;
    auto owner = python_field<std::uint8_t>(frame, layout.frame.owner);
    if (layout.frame.is_entry == 0 && owner >= kOwnedByCStack) {
      if (owner == kOwnedByCStack) hash = with_end_of_loop(hash);
      continue;
    }
    std::uint64_t code = python_field<std::uint64_t>(frame, layout.frame.code) & ~std::uint64_t{layout.frame.tags};
    if (!python_plausible(code)) return 0;
    auto instruction = python_field<std::uint64_t>(frame, layout.frame.instruction);
    if (is_traceable(layout, code, instruction, owner)) {
      ++frames;
      hash = with_frame(hash, identity_of(layout, code), instruction);
    }
    if (layout.frame.is_entry != 0 && python_field<std::uint8_t>(frame, layout.frame.is_entry) != 0)
      hash = with_end_of_loop(hash);
  }
  return finished(hash, frames);
}

}  // namespace

PythonHash python_hash(unsigned long version, const PythonLayout& layout) {
  if (layout.frame_object.unit != 0) return hash_objects;
  if (version >> 16 == 0x30b) return hash_frames<&kPythonLayout311>;
  if (version >> 16 == 0x30c) return hash_frames<&kPythonLayout312>;
  return hash_frames<nullptr>;
}

}  // namespace culprit
