// The tree over the ranks of `culprit merge`, the numbers that launchers tell, and the files by which ranks pass parts
// on.
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "report/base/file_error.h"
#include "report/ranks/folder_link.h"
#include "report/ranks/launched_rank.h"
#include "report/ranks/merge_on_ranks.h"
#include "report/ranks/rank_part.h"
#include "tests/catch.h"
#include "tests/support/environment_variable.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

using namespace culprit::report;
using namespace culprit::test;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

// The variables of every launcher that the tests may run below are unset.
struct NoLauncher {
  EnvironmentVariable open_mpi{"OMPI_COMM_WORLD_RANK", ""};
  EnvironmentVariable pmix{"PMIX_RANK", ""};
  EnvironmentVariable pmi{"PMI_RANK", ""};
  EnvironmentVariable slurm{"SLURM_PROCID", ""};
};

constexpr auto kPatience = 400ms;

}  // namespace

TEST_CASE("each rank passes its part on to one rank, and all come to rank 0", "[report][ranks]") {
  for (unsigned size = 1; size <= 40; ++size) {
    INFO(size);
    std::map<unsigned, unsigned> above;
    for (unsigned rank = 0; rank < size; ++rank) {
      for (const unsigned below : ranks_below(rank, size)) {
        CHECK(below < size);
        CHECK(rank_above(below) == rank);
        CHECK(above.emplace(below, rank).second);
      }
    }
    CHECK(above.size() == size - 1);
  }
  CHECK(ranks_below(0, 5) == std::vector<unsigned>{1, 2, 4});
  CHECK(ranks_below(4, 16) == std::vector<unsigned>{5, 6});
}

TEST_CASE("a rank is one of a launcher that started several processes", "[report][ranks]") {
  const NoLauncher none;
  CHECK(!launched_rank());
  {
    const EnvironmentVariable rank("OMPI_COMM_WORLD_RANK", "3");
    const EnvironmentVariable size("OMPI_COMM_WORLD_SIZE", "16");
    const EnvironmentVariable local("OMPI_COMM_WORLD_LOCAL_SIZE", "4");
    const EnvironmentVariable job("PMIX_NAMESPACE", "1234");
    const std::optional<LaunchedRank> found = launched_rank();
    REQUIRE(found);
    CHECK(found->rank == 3);
    CHECK(found->size == 16);
    CHECK(found->local == 4);
    CHECK(found->job.size() == 16);
    CHECK(threads_of_rank(*found) >= 1);
    CHECK(threads_of_rank(*found) <= std::max(1U, std::thread::hardware_concurrency() / 4));
    const EnvironmentVariable next_job("PMIX_NAMESPACE", "1235");
    CHECK(launched_rank()->job != found->job);
  }
  for (const auto& [rank_name, size_name] :
       {std::pair("PMI_RANK", "PMI_SIZE"), std::pair("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")}) {
    INFO(rank_name);
    const EnvironmentVariable rank(rank_name, "1");
    const EnvironmentVariable size(size_name, "2");
    REQUIRE(launched_rank());
    CHECK(launched_rank()->rank == 1);
    // The only process of a launcher, numbers that cannot be, and a batch script of Slurm are alone.
    for (const char* wrong : {"1", "", "x", "-2"}) {
      const EnvironmentVariable other(size_name, wrong);
      CHECK(!launched_rank());
    }
  }
  {
    // srun --mpi=pmix, as Slurm 22.05 sets them. The rank of another launcher that tells no size is alone.
    const EnvironmentVariable rank("PMIX_RANK", "1");
    const EnvironmentVariable slurm_rank("SLURM_PROCID", "1");
    const EnvironmentVariable slurm_size("SLURM_STEP_NUM_TASKS", "2");
    const EnvironmentVariable space("PMIX_NAMESPACE", "slurm.pmix.20.0");
    REQUIRE(launched_rank());
    CHECK(launched_rank()->rank == 1);
    CHECK(launched_rank()->size == 2);
    const EnvironmentVariable other_space("PMIX_NAMESPACE", "prterun-vm-1@1");
    CHECK(!launched_rank());
  }
  // Whole containers have these of torchrun.
  const EnvironmentVariable rank("RANK", "0");
  const EnvironmentVariable size("WORLD_SIZE", "8");
  CHECK(!launched_rank());
}

TEST_CASE("a part comes through a folder, whatever an earlier run left there", "[report][ranks]") {
  const TemporaryFolder folder;
  const std::string path = folder.file("job.json.ranks");
  fs::create_directory(path);
  // Of a run that was killed: its part, its answer to a question of that time, and a sign of life that does not change.
  for (const char* name : {"rank1.here.00ff.9", "rank1.answer.00aa.00ff", "rank1.ask.00aa", "rank1.gone.00ee"})
    std::ofstream(path + "/" + name) << "";
  std::ofstream(path + "/rank1.part.00ff") << "old";
  std::thread rank_1([&] {
    FolderLink link(path, 1, kPatience);
    std::this_thread::sleep_for(100ms);
    link.give("new", 0);
  });
  FolderLink link(path, 0, kPatience);
  std::string problem;
  const std::optional<std::string> part = link.take(1, &problem);
  rank_1.join();
  INFO(problem);
  REQUIRE(part);
  CHECK(*part == "new");
  link.finish();
  CHECK(fs::is_empty(path));
}

TEST_CASE("the wait for a rank that never starts or gives up is bounded", "[report][ranks]") {
  const TemporaryFolder folder;
  const std::string path = folder.file("ranks");
  std::string problem;
  const auto begin = std::chrono::steady_clock::now();
  {
    FolderLink link(path, 0, kPatience);
    CHECK(!link.take(1, &problem));
    CHECK(problem == "it gave no sign of life for 400 ms");
    // It would have started together with the first.
    CHECK(!link.take(2, &problem));
    std::thread rank_3([&] { const FolderLink gives_up(path, 3, kPatience); });
    rank_3.join();
    CHECK(!link.take(3, &problem));
    link.finish();
  }
  CHECK(!fs::exists(path));
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
}

TEST_CASE("a rank waits no longer than rank 0 lives", "[report][ranks]") {
  const TemporaryFolder folder;
  const std::string path = folder.file("ranks");
  FolderLink link(path, 1, kPatience);
  CHECK_THROWS_WITH(link.give("part", 0), Catch::Contains("rank 0 ended before it took the part of rank 1"));
}

TEST_CASE("a folder that cannot be made says where it is needed", "[report][ranks]") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(FolderLink(folder.file("missing/ranks"), 0, kPatience),
                    Catch::Contains("the ranks need a folder for -o"));
}

TEST_CASE("a part is read as it was written, and a damaged one is named", "[report][ranks]") {
  RankPart part;
  part.list = "0011";
  part.ranks = {1, 3};
  part.files.merged = 2;
  part.files.errors = {{7, "x.dump: \"bad\"\n"}};
  part.merged = "{\n}\n";
  const RankPart same = read_part(part_text(part), "the part of rank 1");
  CHECK(same.list == part.list);
  CHECK(same.ranks == part.ranks);
  CHECK(same.files.merged == 2);
  CHECK(same.files.errors == part.files.errors);
  CHECK(same.merged == part.merged);
  const std::string text = part_text(part);
  for (std::size_t length = 0; length < text.size(); ++length)
    CHECK_THROWS_WITH(read_part(text.substr(0, length), "the part of rank 1"), "the part of rank 1 is damaged");
}
