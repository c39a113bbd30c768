// Strangers' programs beside a dump: ELF and DWARF that ask for much, or lead elsewhere. The symbols may be left out;
// the report is made within the limits.
#include <dwarf.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "report/symbols/elf_limits.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/hostile/elf_file.h"
#include "tests/unit/report/shell.h"
#include "tests/unit/sanitized.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

constexpr const char* kWithinLimits = kSanitized ? "timeout 200 " : "ulimit -v 4000000; timeout 60 ";
constexpr double kSeconds = kSanitized ? 200 : 10;
constexpr long kMegabytes = kSanitized ? 100000 : 512;

// Of all programs that this process waited for.
struct Used {
  double seconds = 0;  // of processor time
  long megabytes = 0;  // of the largest
  Used() {
    rusage usage = {};
    ::getrusage(RUSAGE_CHILDREN, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    megabytes = usage.ru_maxrss / 1024;
  }
};

std::string deflated(std::size_t zeros, int window_bits) {
  z_stream z = {};
  REQUIRE(deflateInit2(&z, 1, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string input(1 << 20, '\0');
  std::string packed(zeros / 100 + 1000, '\0');
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  for (std::size_t done = 0; done < zeros; done += input.size()) {
    z.next_in = reinterpret_cast<Bytef*>(input.data());
    z.avail_in = static_cast<uInt>(input.size());
    REQUIRE(deflate(&z, Z_NO_FLUSH) == Z_OK);
  }
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

// Abbreviations and entries, as a compiler never writes them.
struct Dwarf {
  std::string abbreviations;
  std::string info;
  std::string lines;
  std::string ranges;
  std::string strings = std::string(1, '\0');

  void abbreviation(unsigned number, unsigned tag, bool children,
                    const std::vector<std::pair<unsigned, unsigned>>& attributes) {
    put_leb(&abbreviations, number);
    put_leb(&abbreviations, tag);
    abbreviations.push_back(children ? DW_CHILDREN_yes : DW_CHILDREN_no);
    for (const auto& [attribute, form] : attributes) {
      put_leb(&abbreviations, attribute);
      put_leb(&abbreviations, form);
    }
    abbreviations.append(2, '\0');
  }

  // A unit of version 4 with these entries.
  void unit(const std::string& entries, std::uint32_t abbreviations_at = 0) {
    put(&info, static_cast<std::uint32_t>(entries.size() + 7));
    put(&info, std::uint16_t{4});
    put(&info, abbreviations_at);
    info.push_back(8);
    info += entries;
  }

  // A unit of version 5 with one type, of this abbreviation without attributes.
  void type_unit(unsigned number, std::uint64_t signature) {
    constexpr std::uint32_t kHeader = 24;  // the length included
    std::string entry;
    put_leb(&entry, number);
    put(&info, static_cast<std::uint32_t>(kHeader - 4 + entry.size()));
    put(&info, std::uint16_t{5});
    info.push_back(DW_UT_type);
    info.push_back(8);
    put(&info, std::uint32_t{0});
    put(&info, signature);
    put(&info, kHeader);
    info += entry;
  }

  void add_to(ElfFile* file) const {
    file->add_section(".debug_abbrev", abbreviations + '\0');
    file->add_section(".debug_info", info);
    file->add_section(".debug_str", strings);
    if (!lines.empty()) file->add_section(".debug_line", lines);
    if (!ranges.empty()) file->add_section(".debug_ranges", ranges);
  }
};

const std::vector<std::pair<unsigned, unsigned>> kUnit = {
    {DW_AT_low_pc, DW_FORM_addr}, {DW_AT_high_pc, DW_FORM_data8}, {DW_AT_stmt_list, DW_FORM_sec_offset}};

// The beginning of a unit with this abbreviation.
std::string unit_entry(unsigned number, std::uint64_t code_bytes = 4096) {
  std::string entry;
  put_leb(&entry, number);
  put(&entry, ElfFile::kCode);
  put(&entry, code_bytes);
  put(&entry, std::uint32_t{0});
  return entry;
}

const std::vector<std::pair<unsigned, unsigned>> kFunction = {{DW_AT_low_pc, DW_FORM_addr},
                                                              {DW_AT_high_pc, DW_FORM_data8}};

std::string function_entry(unsigned number, std::uint64_t begin = ElfFile::kCode, std::uint64_t bytes = 4096) {
  std::string entry;
  put_leb(&entry, number);
  put(&entry, begin);
  put(&entry, bytes);
  return entry;
}

struct ProgramFiles {
  TemporaryFolder folder;
  std::string program = folder.file("program");
  std::string dump = folder.file("program.dump");
  std::vector<std::string> programs = {program};
  std::size_t addresses = 100;
  std::string options;

  // Reports a dump that names the programs. The report must have its leak, with or without symbols.
  std::string check() {
    DumpBuilder builder;
    for (const std::string& path : programs) {
      const std::uint32_t module = builder.add_module(path, {}, kModuleExecutable);
      for (std::size_t i = 0; i < addresses; ++i)
        builder.add_allocation(live_allocation(
            builder.add_stack({DumpBuilder::frame(module, ElfFile::kCode + 1 + i % 4000)}), i % 2 == 0 ? 4096 : 8192));
    }
    builder.write(dump);
    const Used before;
    const Finished run =
        shell(std::string(kWithinLimits) + "CULPRIT report " + options + " --format json " + dump + " 2>&1");
    const Used after;
    const double seconds = after.seconds - before.seconds;
    INFO(std::filesystem::file_size(program) << " bytes took " << seconds << " seconds, " << after.megabytes << " MiB");
    if (std::getenv("CULPRIT_TEST_FIGURES") != nullptr) WARN(seconds << " seconds, " << after.megabytes << " MiB");
    INFO(run.out.substr(0, 2000));
    CHECK(run.exit_code == 0);
    CHECK(seconds < kSeconds);
    CHECK(after.megabytes < kMegabytes);
    CHECK(has(run.out, "\"leaked_bytes\""));
    return run.out;
  }
  std::string check(ElfFile* file) {
    file->write(program);
    CHECK(std::filesystem::file_size(program) < 10000000);
    return check();
  }
  // A program with these sections only.
  std::string check(const Dwarf& dwarf) {
    ElfFile file;
    dwarf.add_to(&file);
    return check(&file);
  }
};

}  // namespace

TEST_CASE("a program that is packed as a whole is not unpacked", "[report][hostile][limits]") {
  ProgramFiles files;
  SECTION("by gzip") {
    const std::string part = deflated(200 << 20, 31);
    std::ofstream file(files.program, std::ios::binary);
    for (int i = 0; i < 10; ++i) file << part;
  }
  SECTION("by xz") { REQUIRE(shell("head -c 1000000000 /dev/zero | xz -0 >" + files.program).exit_code == 0); }
  SECTION("its debug file, by gzip") {
    std::filesystem::copy_file(std::string(CULPRIT_SUBJECT_DIR) + "/split", files.program);
    std::ofstream file(files.folder.file("split.debug"), std::ios::binary);
    const std::string part = deflated(200 << 20, 31);
    for (int i = 0; i < 10; ++i) file << part;
  }
  files.check();
}

TEST_CASE("the size of an xz stream is known before it is expanded", "[report][hostile]") {
  TemporaryFolder folder;
  const std::string path = folder.file("packed");
  for (const char* how : {"-0", "-9 --block-size=100000 --check=sha256", "--check=none", "--x86 --lzma2"}) {
    INFO(how);
    REQUIRE(shell("(head -c 300001 /dev/urandom; head -c 5000000 /dev/zero) | xz " + std::string(how) + " >" + path)
                .exit_code == 0);
    const std::string text = file_text(path);
    CHECK(expanded_xz_bytes(text.data(), text.size()) == 5300001U);
    CHECK(!expanded_xz_bytes(text.data(), text.size() / 2));
  }
  CHECK(!expanded_xz_bytes("ELF", 3));
  const std::string lzma = "\x5d" + std::string(20, '\0');
  CHECK(!expanded_xz_bytes(lzma.data(), lzma.size()));
}

TEST_CASE("symbols of a program that expand to gigabytes are left out", "[report][hostile][limits]") {
  static const std::string gigabyte = deflated(1 << 30, 15);  // takes seconds, and each section begins anew
  ProgramFiles files;
  ElfFile file;
  SECTION("a compressed symbol table") {
    const unsigned names = file.add_section(".strtab", std::string(100, '\0'), SHT_STRTAB);
    file.add_section(".symtab", compressed_section(1 << 30, gigabyte), SHT_SYMTAB, SHF_COMPRESSED, sizeof(Elf64_Sym),
                     names, 1);
  }
  SECTION("its names") {
    const unsigned names =
        file.add_section(".strtab", compressed_section(1 << 30, gigabyte), SHT_STRTAB, SHF_COMPRESSED);
    file.add_section(".symtab", std::string(2400, '\0'), SHT_SYMTAB, 0, sizeof(Elf64_Sym), names, 1);
  }
  SECTION("the small symbol table of stripped programs") {
    REQUIRE(shell("head -c 1000000000 /dev/zero | xz -0 >" + files.program).exit_code == 0);
    file.add_section(".gnu_debugdata", file_text(files.program));
    const unsigned names = file.add_section(".dynstr", std::string(100, '\0'), SHT_STRTAB, SHF_ALLOC);
    file.add_section(".dynsym", std::string(2400, '\0'), SHT_DYNSYM, SHF_ALLOC, sizeof(Elf64_Sym), names, 1);
  }
  SECTION("compressed DWARF, of the size that it has") {
    Dwarf().add_to(&file);
    file.add_section(".debug_loc", compressed_section(1 << 30, gigabyte), SHT_PROGBITS, SHF_COMPRESSED);
  }
  SECTION("compressed DWARF in the older form") {
    Dwarf().add_to(&file);
    file.add_section(".zdebug_loc", std::string("ZLIB\0\0\0\0\x40\0\0\0", 12) + gigabyte);
  }
  files.check(&file);
}

TEST_CASE("parts of a program that overlap are not read again and again", "[report][hostile][limits]") {
  ProgramFiles files;
  ElfFile file;
  SECTION("notes") {
    std::string notes;
    while (notes.size() < 5000000) put(&notes, Elf64_Nhdr{0, 0, 0});
    const unsigned section = file.add_section(".note.a", notes, SHT_NOTE, SHF_ALLOC);
    SECTION("in segments") {
      for (int i = 0; i < 60000; ++i) file.add_segment_over(section, PT_NOTE);
    }
    SECTION("in sections") {
      for (int i = 0; i < 60000; ++i) file.add_section_over(section, "", SHT_NOTE);
    }
  }
  SECTION("of other byte order") {
    const unsigned section = file.add_section(".a", std::string(4000000, '\0'));
    for (const char* name : {".debug_info", ".debug_abbrev", ".debug_str", ".debug_line"})
      file.add_section_over(section, name, SHT_PROGBITS);
    for (int i = 0; i < 60000; ++i) file.add_section_over(section, ".debug_macro", SHT_PROGBITS);
  }
  SECTION("searched for texts") {
    const unsigned section = file.add_section(".rodata", std::string(6000000, 't'), SHT_PROGBITS, SHF_ALLOC);
    for (int i = 0; i < 50000; ++i) file.add_section_over(section, ".rodata", SHT_PROGBITS);
  }
  files.check(&file);
}

TEST_CASE("a program is no object file", "[report][hostile][limits]") {
  ProgramFiles files;
  ElfFile file;
  file.header.e_type = ET_REL;
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 0; i < 130000; ++i) addresses.push_back(i % 4000);
  file.add_symbols(addresses, "function");
  std::string relocations;
  for (std::uint64_t i = 0; i < 130000; ++i)
    put(&relocations, Elf64_Rela{i % 1000 * 8, ELF64_R_INFO(1 + i, R_X86_64_64), 0});
  Dwarf dwarf;
  dwarf.abbreviation(1, DW_TAG_compile_unit, false, kUnit);
  for (int i = 0; i < 300; ++i) dwarf.unit(unit_entry(1));
  const unsigned info = file.add_section(".debug_info", dwarf.info);
  file.add_section(".debug_abbrev", dwarf.abbreviations + '\0');
  file.add_section(".rela.debug_info", relocations, SHT_RELA, 0, sizeof(Elf64_Rela), 3, info);
  files.check(&file);
}

TEST_CASE("hundreds of thousands of symbols take seconds", "[report][hostile][limits]") {
  ProgramFiles files;
  ElfFile file;
  files.addresses = 4000;
  std::vector<std::uint64_t> addresses;
  SECTION("of one address and one long name") {
    addresses.assign(250000, ElfFile::kCode);
    file.add_symbols(addresses, std::string(3900000, 'n'));
  }
  SECTION("of many addresses") {
    for (std::uint64_t i = 0; i < 390000; ++i) addresses.push_back(ElfFile::kCode + i * 7919 % 4096);
    file.add_symbols(addresses, "_Z" + std::string(100000, '1'));
  }
  files.check(&file);
}

TEST_CASE("abbreviations with many attributes are not walked for each entry", "[report][hostile][limits]") {
  ProgramFiles files;
  Dwarf dwarf;
  std::string entries = unit_entry(1);
  dwarf.abbreviation(1, DW_TAG_compile_unit, true, kUnit);
  // An entry of one byte, because its attributes have no content.
  const auto declare = [&](std::size_t attributes) {
    dwarf.abbreviation(2, DW_TAG_variable, false,
                       std::vector<std::pair<unsigned, unsigned>>(attributes, {DW_AT_external, DW_FORM_flag_present}));
  };
  SECTION("of one unit") {
    SECTION("far too many") { declare(1000000); }
    SECTION("not quite too many") { declare(900); }
    entries.append(6000000, '\2');
    dwarf.unit(entries);
  }
  SECTION("of many units") {
    declare(1000000);
    entries.append(10, '\2');
    for (int i = 0; i < 100000; ++i) dwarf.unit(entries);
  }
  files.check(dwarf);
}

TEST_CASE("entries that lead back are not visited for ever", "[report][hostile][limits]") {
  ProgramFiles files;
  Dwarf dwarf;
  dwarf.abbreviation(1, DW_TAG_compile_unit, true, kUnit);
  std::string entries = unit_entry(1);
  SECTION("to themselves, behind a long text") {
    dwarf.abbreviation(2, DW_TAG_variable, true, {{DW_AT_name, DW_FORM_string}, {DW_AT_sibling, DW_FORM_ref4}});
    const auto at = static_cast<std::uint32_t>(11 + entries.size());
    entries += '\2' + std::string(8000000, 'n') + '\0';
    put(&entries, at);
  }
  SECTION("to themselves") {
    dwarf.abbreviation(2, DW_TAG_variable, true, {{DW_AT_sibling, DW_FORM_ref4}});
    const auto at = static_cast<std::uint32_t>(11 + entries.size());
    entries += '\2';
    put(&entries, at);
  }
  SECTION("as their own origin") {
    dwarf.abbreviation(
        2, DW_TAG_subprogram, false,
        {{DW_AT_low_pc, DW_FORM_addr}, {DW_AT_high_pc, DW_FORM_data8}, {DW_AT_abstract_origin, DW_FORM_ref4}});
    for (int i = 0; i < 300000; ++i) {
      const auto at = static_cast<std::uint32_t>(11 + entries.size());
      entries += function_entry(2);
      put(&entries, at);
    }
    files.addresses = 4000;
  }
  SECTION("through deep trees of inlined calls") {
    dwarf.abbreviation(2, DW_TAG_subprogram, true, kFunction);
    dwarf.abbreviation(3, DW_TAG_inlined_subroutine, true, kFunction);
    for (int tree = 0; tree < 800; ++tree) {
      entries += function_entry(2);
      for (int i = 0; i < 500; ++i) entries += function_entry(3);
      entries.append(501, '\0');
    }
    files.addresses = 4000;
  }
  SECTION("through long lists of addresses") {
    dwarf.abbreviation(2, DW_TAG_subprogram, false, {{DW_AT_ranges, DW_FORM_sec_offset}});
    for (int i = 0; i < 800000; ++i) {
      entries += '\2';
      put(&entries, std::uint32_t{0});
    }
    for (std::uint64_t i = 0; i < 300000; ++i) {
      put(&dwarf.ranges, std::uint64_t{4096});
      put(&dwarf.ranges, std::uint64_t{8192});
    }
  }
  dwarf.unit(entries);
  files.check(dwarf);
}

TEST_CASE("line tables are bounded", "[report][hostile][limits]") {
  ProgramFiles files;
  ElfFile file;
  Dwarf dwarf;
  dwarf.abbreviation(1, DW_TAG_compile_unit, false, kUnit);
  const auto begin_table = [&](unsigned version) {
    dwarf.lines.append(4, '\0');
    put(&dwarf.lines, static_cast<std::uint16_t>(version));
  };
  SECTION("in rows") {
    begin_table(4);
    std::string header = {1, 1, 1, -5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0};
    header += std::string("a.cu\0\0\0\0\0", 9);
    put(&dwarf.lines, static_cast<std::uint32_t>(header.size()));
    dwarf.lines += header;
    dwarf.lines += std::string("\0\x09\x02", 3);
    put(&dwarf.lines, ElfFile::kCode);
    SECTION("far too many") { dwarf.lines.append(9500000, '\x20'); }  // each byte is a row
    SECTION("not quite too many") {
      file.add_section(".comment", std::string(7500000, 'c'));
      dwarf.lines.append(2100000, '\x20');
    }
    dwarf.lines += std::string("\0\1\1", 3);
  }
  SECTION("in rows that advance far") {
    begin_table(4);
    std::string header = {1, 1, 1, -5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0};
    header += std::string("a.cu\0\0\0\0\0", 9);
    put(&dwarf.lines, static_cast<std::uint32_t>(header.size()));
    dwarf.lines += header;
    while (dwarf.lines.size() < 1900000) {
      dwarf.lines.push_back(2);  // the address by
      put_leb(&dwarf.lines, ~std::uint64_t{0} >> 1);
      dwarf.lines.push_back(1);
    }
  }
  SECTION("in files") {
    begin_table(4);
    std::string header = {1, 1, 1, -5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0};
    while (header.size() < 9500000) header += std::string("a\0\0\0\0", 5);
    header.push_back('\0');
    put(&dwarf.lines, static_cast<std::uint32_t>(header.size()));
    dwarf.lines += header;
  }
  SECTION("in files that take no bytes") {
    begin_table(5);
    std::string header;
    header.append({8, 0});
    std::string rest = {1, 1, 1, -5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
    rest.append({1, 1, 0x19});  // one format of a folder: a path that is present
    put_leb(&rest, 0xfffffff0);
    rest.append({1, 1, 0x19});
    put_leb(&rest, 0xfffffff0);
    put(&header, static_cast<std::uint32_t>(rest.size()));
    dwarf.lines += header + rest;
  }
  const auto bytes = static_cast<std::uint32_t>(dwarf.lines.size() - 4);
  dwarf.lines.replace(0, 4, reinterpret_cast<const char*>(&bytes), 4);
  // Several units share one table, and each unfolds it anew.
  for (int i = 0; i < 50; ++i) dwarf.unit(unit_entry(1));
  dwarf.add_to(&file);
  files.check(&file);
}

TEST_CASE("units without content are bounded", "[report][hostile][limits]") {
  ProgramFiles files;
  Dwarf dwarf;
  ElfFile file;
  SECTION("empty") {
    dwarf.abbreviation(1, DW_TAG_compile_unit, false, {});
    for (int i = 0; i < 800000; ++i) dwarf.unit("\1");
  }
  SECTION("not quite too many") {
    dwarf.abbreviation(1, DW_TAG_compile_unit, false, kUnit);
    for (unsigned i = 2; i < 10; ++i) dwarf.abbreviation(i, DW_TAG_variable, false, {});
    for (int i = 0; i < 130000; ++i) dwarf.unit(unit_entry(1));
    file.add_section(".comment", std::string(5500000, 'c'));
  }
  SECTION("with abbreviations of their own, not quite too many") {
    dwarf.abbreviation(2000, DW_TAG_variable, false, {});
    for (unsigned i = 2; i < 1900; ++i) dwarf.abbreviation(i, DW_TAG_variable, false, {});
    dwarf.abbreviation(1, DW_TAG_compile_unit, false, kUnit);
    for (int i = 0; i < 820; ++i) dwarf.unit(unit_entry(1));
    file.add_section(".comment", std::string(9500000, 'c'));
  }
  SECTION("with abbreviations of their own") {
    dwarf.abbreviation(1, DW_TAG_compile_unit, false, kUnit);
    for (unsigned i = 0; i < 100000; ++i) dwarf.abbreviation(2 + i, DW_TAG_variable, false, {});
    for (int i = 0; i < 200000; ++i) dwarf.unit(unit_entry(100001 - i % 1000));
  }
  SECTION("of types, not quite too many") {
    dwarf.abbreviation(1, DW_TAG_compile_unit, false, kUnit);
    for (unsigned i = 2; i < 400; ++i) dwarf.abbreviation(i, DW_TAG_structure_type, false, {});
    dwarf.unit(unit_entry(1));
    for (std::uint64_t i = 0; i < 12000; ++i) dwarf.type_unit(399, i);
    file.add_section(".comment", std::string(2000000, 'c'));
  }
  SECTION("of types") {
    dwarf.abbreviation(1, DW_TAG_compile_unit, false, kUnit);
    for (unsigned i = 2; i < 100000; ++i) dwarf.abbreviation(i, DW_TAG_structure_type, false, {});
    dwarf.unit(unit_entry(1));
    for (std::uint64_t i = 0; i < 300000; ++i) dwarf.type_unit(99999, i);
  }
  SECTION("each with the split unit of one file") {
    dwarf.abbreviation(1, DW_TAG_compile_unit, false,
                       {{DW_AT_GNU_dwo_name, DW_FORM_string}, {DW_AT_GNU_dwo_id, DW_FORM_data8}});
    for (std::uint64_t i = 0; i < 300000; ++i) {
      std::string entry = "\1s.dwo";
      entry.push_back('\0');
      put(&entry, i);
      dwarf.unit(entry);
    }
    Dwarf split;
    split.abbreviation(1, DW_TAG_compile_unit, false, {});
    for (int i = 0; i < 700000; ++i) split.unit("\1");
    ElfFile other;
    other.add_section(".debug_abbrev.dwo", split.abbreviations + '\0');
    other.add_section(".debug_info.dwo", split.info);
    other.write(files.folder.file("s.dwo"));
  }
  dwarf.add_to(&file);
  files.check(&file);
}

TEST_CASE("FIFOs that a program names are not opened", "[report][hostile]") {
  ProgramFiles files;
  ElfFile file;
  Dwarf dwarf;
  const std::string fifo = files.folder.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  dwarf.abbreviation(1, DW_TAG_compile_unit, true, kUnit);
  SECTION("as the file with shared debug information") {
    dwarf.abbreviation(
        2, DW_TAG_subprogram, false,
        {{DW_AT_low_pc, DW_FORM_addr}, {DW_AT_high_pc, DW_FORM_data8}, {DW_AT_name, DW_FORM_GNU_strp_alt}});
    std::string entries = unit_entry(1) + function_entry(2);
    put(&entries, std::uint32_t{0});
    dwarf.unit(entries);
    file.add_section(".gnu_debugaltlink", std::string("fifo\0", 5) + std::string(20, '\7'));
  }
  SECTION("as a split unit") {
    dwarf.abbreviation(2, DW_TAG_compile_unit, false,
                       {{DW_AT_GNU_dwo_name, DW_FORM_string}, {DW_AT_GNU_dwo_id, DW_FORM_data8}});
    dwarf.unit(std::string("\2fifo\0\1\0\0\0\0\0\0\0", 14));
  }
  SECTION("by its build ID, in a system root") {
    file.add_build_id(std::string(20, '\x11'));
    const std::string folder = files.folder.file("usr/lib/debug/.build-id/11");
    std::filesystem::create_directories(folder);
    REQUIRE(::mkfifo((folder + "/" + std::string(38, '1') + ".debug").c_str(), 0600) == 0);
    files.programs = {"/program"};
    files.options = "--sysroot " + files.folder.path().string();
  }
  SECTION("by its build ID, in a folder of debug files") {
    file.add_build_id(std::string(20, '\x11'));
    const std::string folder = files.folder.file("debug/.build-id/11");
    std::filesystem::create_directories(folder);
    REQUIRE(::mkfifo((folder + "/" + std::string(38, '1') + ".debug").c_str(), 0600) == 0);
    files.options = "--debug-dir " + files.folder.file("debug");
  }
  if (!dwarf.info.empty()) dwarf.add_to(&file);
  files.check(&file);
}

TEST_CASE("a program that is named thousands of times is read once", "[report][hostile][limits]") {
  ProgramFiles files;
  ElfFile file;
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t i = 0; i < 390000; ++i) addresses.push_back(ElfFile::kCode + i % 4096);
  file.add_symbols(addresses, "function");
  files.addresses = 1;
  SECTION("by one path") { files.programs.assign(3000, files.program); }
  SECTION("by many paths") {
    for (int i = 0; i < 3000; ++i)
      files.programs.push_back(files.folder.path().string() + "/" + std::string(static_cast<std::size_t>(i), '/') +
                               "program");
  }
  const std::string out = files.check(&file);
  CHECK(has(out, "\"function\": \"function\""));
}
