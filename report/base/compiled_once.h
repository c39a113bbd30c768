// Constructors, destructor and assignments of a struct of many vectors and texts, compiled in one file.
//
// Left to the compiler, they are inline: each file that copies or ends a Report would compile the members of forty
// vectors, 3,000 functions and 2 of 8 seconds. A struct with these is no aggregate: its fields are set by name.
#pragma once

// The first line of the struct.
#define CULPRIT_COMPILED_ONCE(Type) \
  Type();                           \
  ~Type();                          \
  Type(const Type&);                \
  Type(Type&&) noexcept;            \
  Type& operator=(const Type&);     \
  Type& operator=(Type&&) noexcept

// In one file.
#define CULPRIT_COMPILED_HERE(Type)             \
  Type::Type() = default;                       \
  Type::~Type() = default;                      \
  Type::Type(const Type&) = default;            \
  Type::Type(Type&&) noexcept = default;        \
  Type& Type::operator=(const Type&) = default; \
  Type& Type::operator=(Type&&) noexcept = default
