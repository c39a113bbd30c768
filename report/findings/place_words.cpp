#include "report/findings/place_words.h"

#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/model/program_frames.h"

namespace culprit::report {

std::string maker_of(const ResolvedStack& stack) {
  const Frame* frame = changeable_frame(stack);
  if (frame == nullptr) return {};
  const std::string place = frame_place(*frame);
  return place.empty() ? frame_function(*frame) : place;
}

std::string at_place(const ResolvedStack* stack) {
  const Frame* frame = stack == nullptr ? nullptr : naming_frame(*stack);
  if (frame == nullptr) return {};
  const std::string place = frame_place(*frame);
  return place.empty() || frame->line == 0 ? " in " + frame_function(*frame) : " at " + place;
}

}  // namespace culprit::report
