#include "interpose/owners/cxx_types.h"

#include <stdexcept>
#include <typeinfo>

#include "tests/catch.h"

using namespace culprit;

namespace {

struct Plain {};
struct Left {
  virtual ~Left() = default;
  int number = 1;
};
struct Custom : Left, virtual std::exception {
  const char* what() const noexcept override { return "custom"; }
};
struct Twice : std::runtime_error, std::logic_error {
  Twice() : std::runtime_error("a"), std::logic_error("b") {}
};
struct Hidden : private std::exception {};

template <typename T>
TypeInfo of() {
  return &typeid(T);
}

}  // namespace

TEST_CASE("types: a handler of a base catches, one of another class does not", "[types]") {
  CHECK(is_caught_by(of<std::runtime_error>(), of<std::exception>()) == 1);
  CHECK(is_caught_by(of<std::runtime_error>(), of<std::runtime_error>()) == 1);
  CHECK(is_caught_by(of<Custom>(), of<Left>()) == 1);
  CHECK(is_caught_by(of<Custom>(), of<std::exception>()) == 1);
  CHECK(is_caught_by(of<std::exception>(), of<std::runtime_error>()) == 0);
  CHECK(is_caught_by(of<Hidden>(), of<std::exception>()) == 0);
  CHECK(is_caught_by(of<int>(), of<long>()) == 0);
  CHECK(is_caught_by(of<int>(), nullptr) == 1);
  CHECK(is_caught_by(nullptr, nullptr) == 1);
  CHECK(is_caught_by(nullptr, of<int>()) == 0);
  CHECK(is_caught_by(of<char*>(), of<const char*>()) == -1);
}

TEST_CASE("types: the std::exception inside an object, also behind a virtual base", "[types]") {
  const Custom custom;
  const void* found = as_std_exception(of<Custom>(), &custom);
  REQUIRE(found == static_cast<const std::exception*>(&custom));
  CHECK(std::string(what_of(found)) == "custom");
  const std::out_of_range range("text");
  CHECK(std::string(what_of(as_std_exception(of<std::out_of_range>(), &range))) == "text");
  const Twice twice;
  CHECK(as_std_exception(of<Twice>(), &twice) == nullptr);
  const Plain plain;
  CHECK(as_std_exception(of<Plain>(), &plain) == nullptr);
  CHECK(std::string(type_name(of<std::runtime_error>())) == "St13runtime_error");
}
