// Ways through malloc's memory to a block of a cache. They begin in objects of an interpreter here: the data of this
// program counts as the library's own. tests/python/cpp_tensors_test.py has those that begin in variables.
#include "interpose/causes/native_holders.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/sanitized.h"

using namespace culprit;

namespace {

constexpr std::uint64_t kBlock = 0x7f0000200000;

// Objects here fill malloc's chunks (24, 40 and 56 bytes): what is left of a chunk has pointers of an earlier use.

struct Storage {
  std::uint64_t counts[2] = {1, 1};
  struct {  // c10::DataPtr (c10/core/Allocator.h)
    std::uint64_t data = kBlock;
    void* deleter = nullptr;
    std::uint64_t context = kBlock;
  } pointer;
};
struct Records {  // of an allocator: the address once
  std::uint64_t size = 0;
  std::uint64_t address = kBlock;
  std::uint64_t more[5] = {};
};

template <typename Object>
struct Filled {
  Object object;
  std::uint64_t rest = 0;
};

std::uint64_t address_of(const void* object) { return reinterpret_cast<std::uint64_t>(object); }

class Search {
 public:
  Search() {
    REQUIRE(holders.open(0, 0));
    REQUIRE(holders.want_block(kBlock));
  }
  void add(std::uint64_t object, const void* pointer) {
    const std::uint64_t words[] = {0, address_of(pointer)};
    REQUIRE(holders.add_object(object, words, 2));
  }
  // The objects that lead to the block.
  std::vector<std::uint64_t> found(std::uint64_t deadline_ns = ~std::uint64_t{0}) {
    std::vector<std::uint64_t> found;
    if (!holders.search(deadline_ns)) return found;
    for (const NativeHolders::Object& one : holders.objects()) found.push_back(one.object);
    std::sort(found.begin(), found.end());
    return found;
  }
  std::size_t steps() const {
    std::size_t steps = 0;
    holders.for_each_step([&](const NativeHolders::Step&) { ++steps; });
    return steps;
  }
  NativeHolders holders;
};

using Objects = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("an object of an interpreter leads to a block through chunks of malloc", "[native-holders]") {
  if (test::kSanitized) return;  // another malloc
  const auto records = std::make_unique<Records>();
  std::vector<std::unique_ptr<Storage>> vector(3);
  vector[0] = std::make_unique<Storage>();
  Search search;
  search.add(1, records.get());
  SECTION("an allocator's records are no way") { CHECK(search.found() == Objects{}); }
  SECTION("a vector") {
    search.add(2, vector.data());
    CHECK(search.found() == Objects{2});
    CHECK(search.steps() == 2);
  }
  SECTION("the nearest ones alone") {
    search.add(2, vector.data());
    search.add(3, vector[0].get());
    search.add(4, vector[0].get());
    CHECK(search.found() == Objects{3, 4});
    CHECK(search.steps() == 1);
  }
  SECTION("the inside of an object, as that of a capsule") {
    search.add(2, &vector[0]->counts[1]);
    CHECK(search.found() == Objects{2});
  }
  SECTION("a chunk that the caller knows is no way") {
    search.add(2, vector.data());
    search.holders.leave_out(address_of(vector[0].get()));
    CHECK(search.found() == Objects{});
  }
  SECTION("no time is left") {
    search.add(2, vector.data());
    CHECK(search.found(0) == Objects{});
  }
}

TEST_CASE("an object beside its counts is a part of their chunk", "[native-holders]") {
  if (test::kSanitized) return;
  const auto shared = std::make_shared<Storage>();
  const auto holder = std::make_unique<Filled<std::shared_ptr<Storage>>>();
  holder->object = shared;
  Search search;
  search.add(1, holder.get());
  CHECK(search.found() == Objects{1});
}

TEST_CASE("a pointer that shares nothing any more is no way", "[native-holders]") {
  if (test::kSanitized) return;
  const auto storage = std::make_unique<Storage>();
  // Its object ends, and its counts live on.
  std::shared_ptr<Storage> ending(storage.get(), [](Storage*) {});
  const auto weak = std::make_unique<Filled<std::weak_ptr<Storage>>>();
  weak->object = ending;
  const auto found = [&] {
    Search search;
    search.add(1, weak.get());
    return search.found();
  };
  CHECK(found() == Objects{1});
  ending.reset();
  CHECK(found() == Objects{});
}

TEST_CASE("an object that has ended beside its counts is no way", "[native-holders]") {
  if (test::kSanitized) return;
  struct Cache {
    std::uint64_t numbers[8] = {};
    Storage* storage = nullptr;
  };
  const auto storage = std::make_unique<Storage>();
  auto cache = std::make_shared<Cache>();
  cache->storage = storage.get();
  const Cache* object = cache.get();
  const std::weak_ptr<Cache> weak = cache;
  const auto found = [&] {
    Search search;
    search.add(1, object);
    return search.found();
  };
  CHECK(found() == Objects{1});
  cache.reset();
  CHECK(found() == Objects{});
}

TEST_CASE("memory that was left as it was is no way", "[native-holders]") {
  if (test::kSanitized) return;
  auto storage = std::make_unique<Storage>();
  const auto text = std::make_unique<Filled<std::string>>();
  text->object = "ab";
  const std::uint64_t left_over = address_of(storage.get());
  std::memcpy(text->object.data() + 8, &left_over, sizeof(left_over));
  SECTION("the unused part of a short text") {
    Search search;
    search.add(1, text.get());
    CHECK(search.found() == Objects{});
  }
  SECTION("the unused part of a text, and of a vector") {
    const auto long_text = std::make_unique<Filled<std::string>>();
    const auto vector = std::make_unique<std::vector<Storage*>>();
    long_text->object.assign(39, 'a');
    vector->assign(5, nullptr);
    char* unused = long_text->object.data() + 32;
    std::memcpy(unused, &left_over, sizeof(left_over));
    (*vector)[4] = storage.get();
    const auto found = [&] {
      Search search;
      search.add(1, long_text.get());
      search.add(2, vector.get());
      return search.found();
    };
    CHECK(found() == Objects{1, 2});
    long_text->object.resize(30);
    vector->resize(4);
    std::memcpy(unused, &left_over, sizeof(left_over));
    CHECK(found() == Objects{});
  }
  SECTION("a freed chunk") {
    storage.reset();
    Search search;
    search.add(1, reinterpret_cast<const void*>(left_over));
    CHECK(search.found() == Objects{});
  }
}

TEST_CASE("an object that C code alone has is found with a mark in its address", "[native-holders]") {
  if (test::kSanitized) return;
  // c10's slot for the object of an interpreter, with the mark that C++ owns it.
  constexpr std::uint64_t kObject = 0x7f0000300010;
  const auto slot = std::make_unique<std::uint64_t[]>(5);
  slot[2] = kObject | 1;
  NativeHolders holders;
  REQUIRE(holders.open(0, 0));
  REQUIRE(holders.want_object(kObject));
  const std::uint64_t word = address_of(slot.get());
  REQUIRE(holders.add_object(kObject, &word, 1));  // it has the object of C++ that has it
  REQUIRE(holders.add_object(2, &word, 1));
  REQUIRE(holders.search(~std::uint64_t{0}));
  REQUIRE(holders.objects().size() == 1);
  CHECK(holders.objects()[0].object == 2);
}
