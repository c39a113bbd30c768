#include "report/symbols/demangle.h"

#include <cctype>
#include <cstring>
#include <utility>

#include "report/symbols/demangler.h"

namespace culprit::report {
namespace {

// Longer names would fill a report without telling a reader more.
constexpr std::size_t kLongestName = 4096;

std::string shortened(std::string name) {
  if (name.size() > kLongestName) name.replace(kLongestName - 3, std::string::npos, "...");
  return name;
}

// Start of the last "operator" that is a separate word outside of brackets; npos when there is none.
std::size_t find_operator(const std::string& text) {
  constexpr char kWord[] = "operator";
  constexpr std::size_t kLength = sizeof(kWord) - 1;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
    if (depth != 0 || text.compare(i, kLength, kWord) != 0) continue;
    const bool begins = i == 0 || text[i - 1] == ':' || text[i - 1] == ' ';
    const char after = i + kLength < text.size() ? text[i + kLength] : '\0';
    const bool ends = !(std::isalnum(static_cast<unsigned char>(after)) || after == '_');
    if (begins && ends) return i;
  }
  return std::string::npos;
}

}  // namespace

std::string strip_signature(std::string signature) {
  for (std::size_t clone = signature.rfind(" [clone "); clone != std::string::npos;
       clone = signature.rfind(" [clone ")) {
    signature.resize(clone);
  }
  // The parameter list is the last parenthesis that is followed only by qualifiers. It is searched from the end, where
  // templates cannot mislead, because parentheses are balanced.
  const std::size_t close = signature.rfind(')');
  if (close != std::string::npos) {
    const std::string rest = signature.substr(close + 1);
    const bool only_qualifiers = rest.find_first_not_of(" abcdefghijklmnopqrstuvwxyz&") == std::string::npos;
    int depth = 0;
    for (std::size_t i = close + 1; only_qualifiers && i-- > 0;) {
      if (signature[i] == ')') ++depth;
      if (signature[i] == '(' && --depth == 0) {
        if (i > 0) signature.resize(i);
        break;
      }
    }
  }
  // Only templates have a return type in their name. It ends at the last space outside of brackets, before any
  // "operator".
  const std::size_t limit = find_operator(signature);
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < signature.size() && i < limit; ++i) {
    const char c = signature[i];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if ((c == '>' || c == ')' || c == '}') && depth > 0) --depth;
    if (c == ' ' && depth == 0) begin = i + 1;
  }
  return signature.substr(begin);
}

std::string function_name(const char* symbol) {
  if (std::strncmp(symbol, "_Z", 2) == 0 || std::strncmp(symbol, "___Z", 4) == 0) {
    const std::string signature = demangled(symbol);
    if (!signature.empty()) return shortened(strip_signature(signature));
  }
  std::string name(symbol, ::strnlen(symbol, kLongestName + 1));
  for (const char* suffix : {".constprop.", ".part.", ".isra.", ".cold", ".lto_priv.", ".llvm."}) {
    const std::size_t at = name.find(suffix);
    if (at != std::string::npos && at > 0) name.resize(at);
  }
  const std::size_t version = name.find('@');  // memcpy@GLIBC_2.14
  if (version != std::string::npos && version > 0) name.resize(version);
  return shortened(std::move(name));
}

std::string variable_name(const char* symbol) {
  std::string name(symbol, ::strnlen(symbol, kLongestName + 1));
  const std::size_t version = name.find('@');  // stdout@GLIBC_2.2.5
  if (version != std::string::npos && version > 0) name.resize(version);
  for (const char* suffix : {".lto_priv.", ".llvm.", "."}) {  // "." is for "cache.1", a static of a C function
    const std::size_t at = name.find(suffix);
    if (at != std::string::npos && at > 0) name.resize(at);
  }
  std::string source = name.compare(0, 2, "_Z") == 0 ? demangled(name.c_str()) : std::string();
  // "g_map[abi:cxx11]": a variable whose type has a std::string inside. The tag is no part of its name in the source.
  for (std::size_t tag; (tag = source.find("[abi:")) != std::string::npos;) {
    const std::size_t end = source.find(']', tag);
    source.erase(tag, end == std::string::npos ? end : end + 1 - tag);
  }
  return shortened(std::move(source.empty() ? name : source));
}

std::string type_name(const std::string& mangled) {
  // The type_info name of a type in an unnamed namespace begins with '*', which means: compare by address.
  std::string name = demangled(mangled.c_str() + (mangled.compare(0, 1, "*") == 0 ? 1 : 0));
  return shortened(name.empty() ? mangled : std::move(name));
}

}  // namespace culprit::report
