// Asks libunwind for the rule of a step. Its own fast trace (tdep_trace) uses the same record. That record and a
// function's unwind instructions have no public interface, so this file alone is compiled against libunwind's private
// headers. They come from the same source that scripts/build-libunwind.sh builds, so a missing member is a compile
// error here.
#define UNW_LOCAL_ONLY
#include "libunwind_i.h"

#include "interpose/stacks/unwind_rule.h"

int culprit_unwind_step(unw_cursor_t* cursor, struct culprit_unwind_rule* rule) {
#if defined(__x86_64__)
  struct cursor* c = (struct cursor*)cursor;
  c->frame_info.frame_type = UNW_X86_64_FRAME_OTHER;
  c->frame_info.last_frame = 0;
  c->frame_info.cfa_reg_rsp = -1;
  c->frame_info.cfa_reg_offset = 0;
  c->frame_info.rbp_cfa_offset = -1;
  c->frame_info.rsp_cfa_offset = -1;
  c->dwarf.stash_frames = 1;
  int result = unw_step(cursor);
  rule->known = c->frame_info.frame_type == UNW_X86_64_FRAME_STANDARD;
  rule->from_rbp = c->frame_info.cfa_reg_rsp == 0;
  rule->rbp_saved = c->frame_info.rbp_cfa_offset != -1;
  rule->rbp_cfa_offset = c->frame_info.rbp_cfa_offset;
  return result;
#else
  rule->known = 0; /* stacks are walked again each time */
  return unw_step(cursor);
#endif
}

/* dwarf_put_unwind_info() does nothing: the caller frees what dwarf_find_proc_info() allocated, even on failure. */
static void give_back(unw_proc_info_t* info) {
  if (info->unwind_info != NULL && info->format == UNW_INFO_FORMAT_TABLE)
    mempool_free(&dwarf_cie_info_pool, info->unwind_info);
}

int culprit_function_at(unw_word_t address, struct culprit_function* function) {
  unw_proc_info_t info;
  memset(&info, 0, sizeof(info));
  if (dwarf_find_proc_info(unw_local_addr_space, address, &info, 1, NULL) < 0) {
    give_back(&info);
    return -1;
  }
  function->begin = info.start_ip;
  function->end = info.end_ip;
  function->lsda = info.lsda;
  function->is_part = 0;
  if (info.unwind_info != NULL && info.format != UNW_INFO_FORMAT_DYNAMIC) {
    const struct dwarf_cie_info* rules = info.unwind_info;
    if (rules->fde_instr_start < rules->fde_instr_end) {
      /* A function's rules begin with an advance past its first instruction; those of a split-off part begin with the
       * frame's location. */
      unsigned char first = *(const unsigned char*)rules->fde_instr_start;
      function->is_part = first == DW_CFA_def_cfa || first == DW_CFA_def_cfa_offset ||
                          first == DW_CFA_def_cfa_register || (first & 0xc0) == DW_CFA_offset;
    }
  }
  give_back(&info);
  return 0;
}
