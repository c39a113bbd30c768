// Reads JSON of unknown origin, as text and as CBOR.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace culprit::report {

// The JSON text of a file. Throws FileError when the file cannot be read. Text that is no JSON, and text whose lists
// and objects are nested deeper than any file of culprit, is a discarded value; `problem`, if not nullptr, then says
// why. `bytes`, if not nullptr, receives the size of the text.
nlohmann::json read_json(const std::string& path, std::size_t* bytes = nullptr, std::string* problem = nullptr);

// Likewise for a text in memory.
nlohmann::json parse_json(const std::string& text, std::string* problem = nullptr);

// Likewise for CBOR (RFC 8949).
nlohmann::json parse_cbor(const std::string& bytes);

// A member of an object. One that is missing or of another type is read as 0, false or empty: another version may have
// written it.
std::uint64_t number_of(const nlohmann::json& object, const char* name);
bool flag_of(const nlohmann::json& object, const char* name);
std::string text_of(const nlohmann::json& object, const char* name);

}  // namespace culprit::report
