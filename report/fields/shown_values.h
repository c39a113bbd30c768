// Values of report JSON that are made by code above this folder: an archive of JSON has a function for each.
#pragma once

namespace culprit::report {

struct Balance;
struct DeviceInfo;
struct Group;

template <typename Value>
constexpr bool kIsShownValue = false;

// `evidence[]`: the fields are those of the files in causes/.
struct ShownEvidence {
  const Group* group;
};
// `baseline`: the entry of the group's id.
struct ShownBaseline {
  const Group* group;
};
// `spread`: the shares of the processes.
struct ShownSpread {
  const Group* group;
};
// `time_line`.
struct ShownTimeLine {
  const DeviceInfo* device;
};
// `items[]` of a balance.
struct ShownItems {
  const Balance* balance;  // nullptr: there is none
};

// The parts of a report that only JSON has.
enum class Part {
  kSummary,
  kFreedAtEnd,
  kOutOfMemory,
  kShared,
  kSuppressed,
  kFiltered,
  kBaseline,
  kMarksWithBytes,
  kSinceMark,
  kBeforeMark,
  kRecording,
  kFindingList,
  kAnswers,
};
struct ShownPart {
  Part part;
};

template <>
inline constexpr bool kIsShownValue<ShownEvidence> = true;
template <>
inline constexpr bool kIsShownValue<ShownBaseline> = true;
template <>
inline constexpr bool kIsShownValue<ShownSpread> = true;
template <>
inline constexpr bool kIsShownValue<ShownTimeLine> = true;
template <>
inline constexpr bool kIsShownValue<ShownItems> = true;
template <>
inline constexpr bool kIsShownValue<ShownPart> = true;

}  // namespace culprit::report
