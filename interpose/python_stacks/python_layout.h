// Where CPython keeps the data of a traceback: the frames of a thread, and file, name and lines of a code object.
//
// 3.9 to 3.12: a table, from CPython's own headers (Include/cpython/pystate.h, Include/cpython/frameobject.h,
// Include/internal/pycore_frame.h, Include/cpython/code.h, Include/cpython/unicodeobject.h of each version), default
// builds of 64-bit machines. 3.13 and 3.14 publish their layout (_Py_DebugOffsets in Include/internal/pycore_runtime.h
// and pycore_debug_offsets.h). The check in PythonFrames detects a build with another layout.
//
// 3.9 and 3.10 have an object for each frame, and an evaluation loop in C for each. From 3.11 on one loop runs the
// frames of Python functions that call each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace culprit {

// The format of a code object's line table.
enum class LineTable : std::uint8_t {
  kLocations,  // from 3.11 on: Objects/locations.md
  kRanges,     // 3.10: Objects/lnotab_notes.txt, "co_linetable"
  kSteps,      // 3.9: Objects/lnotab_notes.txt, "co_lnotab"
};

// Offsets in bytes.
struct PythonLayout {
  struct {
    std::uint16_t cframe;         // 3.10 to 3.12: on the C stack, one for each loop (3.10: frame); leads to the ...
    std::uint16_t current_frame;  // ... innermost frame, unless that is here; 0 = absent
    std::uint16_t thread_id;
  } thread;
  struct {
    std::uint16_t current_frame, previous;
  } cframe;
  struct {
    std::uint16_t code, previous, globals, instruction, owner;
    // 3.11: set in the outermost frame that one evaluation loop runs. Later versions have a separate frame for the loop
    // on the C stack (kOwnedByCStack), and this is 0.
    std::uint16_t is_entry;
    std::uint16_t tags;  // tag bits of `code`, outside the pointer
  } frame;
  // 3.9 and 3.10: a PyFrameObject; the instruction is counted in units, -1 = not started. `unit` 0: `frame` applies
  // instead.
  struct {
    std::uint16_t code, previous, globals, instruction, unit;
  } frame_object;
  struct {
    std::uint16_t file, name, line_table, first_line, first_traceable, instructions;
    std::uint16_t bytecode;  // 3.9 and 3.10: the instructions are in this bytes object, not in the code object
    // From 3.12 on: a number unique among all code objects of the interpreter; 0 once the numbers ran out (init_code()
    // in Objects/codeobject.c). Offset 0 = absent.
    std::uint16_t version;
    LineTable lines;
  } code;
  struct {
    std::uint16_t ascii, compact;  // where the characters begin
  } text;
};

inline constexpr PythonLayout kPythonLayout311 = {
    {56, 0, 152}, {8, 16}, {32, 48, 8, 56, 69, 68, 0}, {}, {112, 128, 136, 72, 168, 184, 0, 0, LineTable::kLocations},
    {48, 72}};
inline constexpr PythonLayout kPythonLayout312 = {
    {56, 0, 136}, {0, 8}, {0, 8, 24, 56, 70, 0, 0}, {}, {112, 128, 136, 68, 176, 192, 0, 92, LineTable::kLocations},
    {40, 56}};

constexpr std::uint8_t kOwnedByGenerator = 1;
constexpr std::uint8_t kOwnedByCStack = 3;
constexpr std::size_t kPythonTypeOffset = 8;    // ob_type, in every object
constexpr std::size_t kPythonSizeOffset = 16;   // ob_size; the length of a str
constexpr std::size_t kPythonBytesOffset = 32;  // ob_sval of a bytes object

// The layout of an interpreter of version `version` (PY_VERSION_HEX) with _PyRuntime at `runtime`. Returns false for an
// unknown layout.
bool python_layout(unsigned long version, std::uint64_t runtime, PythonLayout* layout);

// Loads a field of a Python object. The caller knows that the field exists.
template <typename T>
inline T python_field(std::uint64_t object, std::size_t offset) {
  T value;
  __builtin_memcpy(&value, reinterpret_cast<const void*>(object + offset), sizeof(value));
  return value;
}

// Whether this is plausible as the address of an object.
inline bool python_plausible(std::uint64_t pointer) { return pointer >= 4096 && (pointer & 0xffff800000000007) == 0; }

// Whether a traceback shows a frame at this instruction: it omits a frame that is still being set up.
inline bool is_traceable(const PythonLayout& layout, std::uint64_t code, std::uint64_t instruction,
                         std::uint8_t owner) {
  std::uint64_t begin = code + layout.code.instructions +
                        2 * static_cast<std::uint64_t>(python_field<std::uint32_t>(code, layout.code.first_traceable));
  return owner == kOwnedByGenerator || instruction >= begin;
}

// The line of the instruction at byte `offset` of a code object, from its table of lines. 0: the instruction has no
// line, or is outside the table.
std::uint32_t python_line(LineTable kind, const unsigned char* table, std::size_t bytes, std::int32_t first_line,
                          std::int64_t offset);

// A str as UTF-8, cut at `capacity` bytes; a surrogate (an undecodable byte of a file name) becomes U+FFFD. Returns the
// number of bytes, 0 for an unknown form of object.
std::size_t python_text(const PythonLayout& layout, std::uint64_t object, char* text, std::size_t capacity);

}  // namespace culprit
