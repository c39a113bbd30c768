#include "tests/bench/big_dwarf.h"

#include <dwarf.h>

#include <cstring>
#include <initializer_list>
#include <utility>

namespace bench {
namespace {

template <typename Number>
void put(std::string* to, Number number) {
  to->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void put_leb(std::string* to, std::uint64_t number) {
  do {
    const auto byte = static_cast<unsigned char>(number & 0x7f);
    number >>= 7;
    to->push_back(static_cast<char>(number != 0 ? byte | 0x80 : byte));
  } while (number != 0);
}

void patch(std::string* in, std::size_t at, std::uint32_t number) { std::memcpy(&(*in)[at], &number, sizeof(number)); }

enum Abbreviation : unsigned char {
  kUnit = 1,
  kNamespace,
  kClass,
  kMember,
  kDeclaration,
  kThis,
  kBaseType,
  kAbstract,
  kDefinition,
  kParameter,
  kInlined,
  kInlinedParameter,
  kCallSite,
};

constexpr unsigned char kVersion = 4;
constexpr int kMembers = 20;
constexpr int kAbstracts = 16;  // small functions that the others have inlined

}  // namespace

DwarfSections::DwarfSections() {
  add_string("");
  producer_ = add_string("GNU C++17 12.2.0 -O2 -g");
  folder_ = add_string("/build/layers");
  int_ = add_string("int");
  float_ = add_string("float");
  pointer_ = add_string("data");
  member_ = add_string("weights_");
  parameter_ = add_string("this");
  size_ = add_string("size");
}

std::uint32_t DwarfSections::add_string(const std::string& text) {
  const auto at = static_cast<std::uint32_t>(strings.size());
  strings.append(text.c_str(), text.size() + 1);
  return at;
}

std::string DwarfSections::abbreviations() {
  std::string text;
  auto abbreviation = [&](Abbreviation number, unsigned tag, bool children,
                          std::initializer_list<std::pair<unsigned, unsigned>> attributes) {
    put_leb(&text, number);
    put_leb(&text, tag);
    text.push_back(children ? DW_CHILDREN_yes : DW_CHILDREN_no);
    for (const auto& [attribute, form] : attributes) {
      put_leb(&text, attribute);
      put_leb(&text, form);
    }
    text.append(2, '\0');
  };
  abbreviation(kUnit, DW_TAG_compile_unit, true,
               {{DW_AT_producer, DW_FORM_strp},
                {DW_AT_language, DW_FORM_data1},
                {DW_AT_name, DW_FORM_strp},
                {DW_AT_comp_dir, DW_FORM_strp},
                {DW_AT_low_pc, DW_FORM_addr},
                {DW_AT_high_pc, DW_FORM_data8},
                {DW_AT_stmt_list, DW_FORM_sec_offset}});
  abbreviation(kNamespace, DW_TAG_namespace, true, {{DW_AT_name, DW_FORM_strp}});
  abbreviation(kClass, DW_TAG_class_type, true,
               {{DW_AT_name, DW_FORM_strp},
                {DW_AT_byte_size, DW_FORM_data1},
                {DW_AT_decl_file, DW_FORM_data1},
                {DW_AT_decl_line, DW_FORM_data2}});
  abbreviation(kMember, DW_TAG_member, false,
               {{DW_AT_name, DW_FORM_strp},
                {DW_AT_decl_file, DW_FORM_data1},
                {DW_AT_decl_line, DW_FORM_data2},
                {DW_AT_type, DW_FORM_ref4},
                {DW_AT_data_member_location, DW_FORM_data1}});
  abbreviation(kDeclaration, DW_TAG_subprogram, true,
               {{DW_AT_external, DW_FORM_flag_present},
                {DW_AT_name, DW_FORM_strp},
                {DW_AT_decl_file, DW_FORM_data1},
                {DW_AT_decl_line, DW_FORM_data2},
                {DW_AT_linkage_name, DW_FORM_strp},
                {DW_AT_declaration, DW_FORM_flag_present}});
  abbreviation(kThis, DW_TAG_formal_parameter, false, {{DW_AT_type, DW_FORM_ref4}});
  abbreviation(kBaseType, DW_TAG_base_type, false,
               {{DW_AT_byte_size, DW_FORM_data1}, {DW_AT_encoding, DW_FORM_data1}, {DW_AT_name, DW_FORM_strp}});
  abbreviation(kAbstract, DW_TAG_subprogram, false,
               {{DW_AT_external, DW_FORM_flag_present},
                {DW_AT_name, DW_FORM_strp},
                {DW_AT_linkage_name, DW_FORM_strp},
                {DW_AT_decl_file, DW_FORM_data1},
                {DW_AT_decl_line, DW_FORM_data2},
                {DW_AT_inline, DW_FORM_data1}});
  abbreviation(kDefinition, DW_TAG_subprogram, true,
               {{DW_AT_specification, DW_FORM_ref4},
                {DW_AT_decl_line, DW_FORM_data2},
                {DW_AT_low_pc, DW_FORM_addr},
                {DW_AT_high_pc, DW_FORM_data8},
                {DW_AT_frame_base, DW_FORM_exprloc}});
  abbreviation(kParameter, DW_TAG_formal_parameter, false,
               {{DW_AT_name, DW_FORM_strp},
                {DW_AT_decl_file, DW_FORM_data1},
                {DW_AT_decl_line, DW_FORM_data2},
                {DW_AT_type, DW_FORM_ref4},
                {DW_AT_location, DW_FORM_exprloc}});
  abbreviation(kInlined, DW_TAG_inlined_subroutine, true,
               {{DW_AT_abstract_origin, DW_FORM_ref4},
                {DW_AT_low_pc, DW_FORM_addr},
                {DW_AT_high_pc, DW_FORM_data8},
                {DW_AT_call_file, DW_FORM_data1},
                {DW_AT_call_line, DW_FORM_data2}});
  abbreviation(kInlinedParameter, DW_TAG_formal_parameter, false,
               {{DW_AT_type, DW_FORM_ref4}, {DW_AT_location, DW_FORM_exprloc}});
  abbreviation(kCallSite, DW_TAG_GNU_call_site, false,
               {{DW_AT_low_pc, DW_FORM_addr}, {DW_AT_abstract_origin, DW_FORM_ref4}});
  text.push_back('\0');
  return text;
}

namespace {

void begin(std::string* info, Abbreviation number) { info->push_back(static_cast<char>(number)); }
void end(std::string* info) { info->push_back('\0'); }
void put16(std::string* info, std::size_t number) { put(info, static_cast<std::uint16_t>(number)); }
void put_register(std::string* info) { info->append({1, static_cast<char>(DW_OP_reg0 + 5)}); }

}  // namespace

void DwarfSections::add_unit(const DwarfUnit& unit, std::uint64_t function_bytes) {
  Places places;
  begin_unit(unit, function_bytes, &places);
  add_namespace(unit, &places);
  for (std::size_t i = 0; i < unit.functions.size(); ++i)
    add_definition(places, i, unit.code + i * function_bytes, function_bytes);
  end(&info);  // unit
  patch(&info, places.start, static_cast<std::uint32_t>(info.size() - places.start - 4));
  add_lines(unit, function_bytes);
}

// The unit's head and its types.
void DwarfSections::begin_unit(const DwarfUnit& unit, std::uint64_t function_bytes, Places* places) {
  places->start = info.size();
  put(&info, std::uint32_t{0});  // length, stored at the end
  put(&info, std::uint16_t{kVersion});
  put(&info, std::uint32_t{0});  // abbreviations: all units share them
  info.push_back(8);
  begin(&info, kUnit);
  put(&info, producer_);
  info.push_back(DW_LANG_C_plus_plus);
  put(&info, add_string(unit.name));
  put(&info, folder_);
  put(&info, unit.code);
  put(&info, std::uint64_t{unit.functions.size() * function_bytes});
  put(&info, static_cast<std::uint32_t>(lines.size()));

  places->int_type = static_cast<std::uint32_t>(info.size() - places->start);
  begin(&info, kBaseType);
  info.append({4, DW_ATE_signed});
  put(&info, int_);
  places->float_type = static_cast<std::uint32_t>(info.size() - places->start);
  begin(&info, kBaseType);
  info.append({4, DW_ATE_float});
  put(&info, float_);
}

// A namespace with inlined functions, and a class that declares the functions.
void DwarfSections::add_namespace(const DwarfUnit& unit, Places* places) {
  const auto here = [&] { return static_cast<std::uint32_t>(info.size() - places->start); };
  begin(&info, kNamespace);
  put(&info, add_string("layers"));
  for (int i = 0; i < kAbstracts; ++i) {
    places->abstracts.push_back(here());
    const std::string name = "inlined" + std::to_string(i);
    begin(&info, kAbstract);
    put(&info, add_string(name));
    put(&info, add_string("_ZN6layers" + std::to_string(name.size()) + name + "EPf"));
    info.push_back(2);
    put16(&info, 10 + static_cast<std::size_t>(i));
    info.push_back(DW_INL_declared_inlined);
  }
  begin(&info, kClass);
  put(&info, add_string(unit.name.substr(0, unit.name.find('.'))));
  info.append({64, 1});
  put16(&info, 5);
  for (int i = 0; i < kMembers; ++i) {
    begin(&info, kMember);
    put(&info, member_);
    info.push_back(1);
    put16(&info, 6 + static_cast<std::size_t>(i));
    put(&info, i % 2 == 0 ? places->int_type : places->float_type);
    info.push_back(static_cast<char>(4 * i));
  }
  for (std::size_t i = 0; i < unit.functions.size(); ++i) {
    places->declarations.push_back(here());
    begin(&info, kDeclaration);
    put(&info, add_string(unit.functions[i].name));
    info.push_back(1);
    put16(&info, 30 + i);
    put(&info, add_string(unit.functions[i].linkage_name));
    for (int parameter = 0; parameter < 3; ++parameter) {
      begin(&info, kThis);
      put(&info, parameter == 2 ? places->int_type : places->float_type);
    }
    end(&info);
  }
  end(&info);  // class
  end(&info);  // namespace
}

// A function at `code`, with its parameters, inlined calls and calls.
void DwarfSections::add_definition(const Places& places, std::size_t number, std::uint64_t code,
                                   std::uint64_t function_bytes) {
  const std::size_t line = 100 + number * 40;
  begin(&info, kDefinition);
  put(&info, places.declarations[number]);
  put16(&info, line);
  put(&info, code);
  put(&info, function_bytes - 16);
  info.append({1, static_cast<char>(DW_OP_call_frame_cfa)});
  for (std::uint32_t name : {parameter_, pointer_, size_}) {
    begin(&info, kParameter);
    put(&info, name);
    info.push_back(1);
    put16(&info, line);
    put(&info, name == size_ ? places.int_type : places.float_type);
    put_register(&info);
  }
  const auto begin_inlined = [&](std::uint64_t from, std::uint64_t bytes, std::size_t which, std::size_t at) {
    begin(&info, kInlined);
    put(&info, places.abstracts[which % places.abstracts.size()]);
    put(&info, code + from);
    put(&info, bytes);
    info.push_back(1);
    put16(&info, at);
    begin(&info, kInlinedParameter);
    put(&info, places.float_type);
    put_register(&info);
  };
  begin_inlined(64, 128, number, line + 10);
  begin_inlined(96, 32, number + 1, 12);
  end(&info);
  end(&info);
  begin_inlined(192, 16, number + 2, line + 20);
  end(&info);
  for (std::uint64_t call = 0; call < 6; ++call) {
    begin(&info, kCallSite);
    put(&info, code + 32 + call * 32);
    put(&info, places.abstracts[(number + call) % places.abstracts.size()]);
  }
  end(&info);
}

void DwarfSections::add_lines(const DwarfUnit& unit, std::uint64_t function_bytes) {
  constexpr int kLineBase = -5;
  constexpr int kLineRange = 14;
  constexpr int kOpcodeBase = 13;
  const std::size_t start = lines.size();
  put(&lines, std::uint32_t{0});  // length, below
  put(&lines, std::uint16_t{kVersion});
  const std::size_t header = lines.size();
  put(&lines, std::uint32_t{0});  // header length, below
  lines.append({1, 1, 1, kLineBase, kLineRange, kOpcodeBase});
  lines.append({0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1});  // operands of the standard opcodes
  lines.push_back('\0');                               // no further folders
  for (const std::string& file : {unit.name, std::string("layer.h")}) {
    lines.append(file.c_str(), file.size() + 1);
    lines.append({0, 0, 0});
  }
  lines.push_back('\0');
  patch(&lines, header, static_cast<std::uint32_t>(lines.size() - header - 4));

  lines.append({0, 9, static_cast<char>(DW_LNE_set_address)});
  put(&lines, unit.code);
  std::uint64_t line = 1;
  const auto special = [&](int line_step, int address_step) {
    lines.push_back(static_cast<char>(line_step - kLineBase + kLineRange * address_step + kOpcodeBase));
    line += static_cast<std::uint64_t>(line_step);
  };
  for (std::size_t i = 0; i < unit.functions.size(); ++i) {
    lines.push_back(static_cast<char>(DW_LNS_advance_line));
    put_leb(&lines, 100 + i * 40 - line);  // always forward: a function's lines end before the next one's begin
    if (lines.back() & 0x40) {             // the operand is signed
      lines.back() = static_cast<char>(lines.back() | 0x80);
      lines.push_back('\0');
    }
    line = 100 + i * 40;
    for (std::uint64_t at = 0; at < function_bytes; at += 8) special(1, 8);
  }
  lines.append({0, 1, static_cast<char>(DW_LNE_end_sequence)});
  patch(&lines, start, static_cast<std::uint32_t>(lines.size() - start - 4));
}

}  // namespace bench
