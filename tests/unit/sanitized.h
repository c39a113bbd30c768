// Whether the tests run under a sanitizer, which multiplies their time: those that try much then try less.
#pragma once

namespace culprit::test {

#if defined(CULPRIT_ASAN) || defined(CULPRIT_TSAN)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace culprit::test
