// The place of a stack in the source, for formats that annotate lines.
#pragma once

#include <string>
#include <vector>

namespace culprit::report {

struct Frame;
struct ResolvedStack;

// The innermost frame of the program with a line; without one a frame without a line. nullptr for an unknown stack.
const Frame* place_of(const ResolvedStack* stack);

// The innermost frame of the program whose file lies below one of the folders; without one that of place_of().
const Frame* place_below(const std::vector<std::string>& folders, const ResolvedStack* stack);

// `path` relative to the first of the folders that it lies below, in its shortest form ("a/b.cu" for "/w/a/./b.cu"
// below
// "/w"); otherwise the path's shortest form. Compares names only: the file need not exist here.
std::string path_below(const std::vector<std::string>& folders, const std::string& path);

}  // namespace culprit::report
