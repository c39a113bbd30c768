// culprit report --id: one leak, or the ids that there are.
#include <string>

#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using culprit::test::DumpBuilder;
using culprit::test::Finished;
using culprit::test::has;
using culprit::test::live_allocation;
using culprit::test::shell;
using culprit::test::TemporaryFolder;

TEST_CASE("culprit report --id shows one leak", "[report][cli]") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  DumpBuilder dump;
  for (std::uint64_t i = 1; i <= 12; ++i) {
    const std::uint32_t module = dump.add_module("/lib/lib" + std::string(i, 'x') + ".so");
    dump.add_allocation(live_allocation(dump.add_stack({DumpBuilder::frame(module, 0x1000)}), 100 * i));
  }
  dump.write(path);
  const Finished ids = shell("CULPRIT report --format json " + path + " | grep -o '\"id\": *\"[0-9a-f]*\"' | tail -1");
  const std::string id = ids.out.substr(ids.out.find_last_of('"') - 16, 16);
  const Finished one = shell("CULPRIT report --id " + id + " " + path);
  CHECK(one.exit_code == 0);
  CHECK(has(one.out, "in 1 allocation, 1 group"));
  CHECK(has(one.out, id));
  CHECK(has(one.out, "in 11 groups that the filters leave out"));
  const Finished none = shell("CULPRIT report --id 0123 " + path);
  CHECK(none.exit_code == 3);
  CHECK(has(none.err, "--id 0123: nothing has this id; there are: "));
  CHECK(has(none.err, ", ... (culprit report shows all)"));
  std::string mistyped = id;
  mistyped[3] = mistyped[3] == '0' ? '1' : '0';
  CHECK(has(shell("CULPRIT report --id " + mistyped + " " + path).err, "did you mean " + id + "?"));
}
