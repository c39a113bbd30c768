#!/usr/bin/env python3
"""Changes libunwind's source for use inside other people's processes: scripts/libunwind/patch.py SOURCE_FOLDER

libunwind's local unwinding takes the loader's lock (dl_iterate_phdr) and a mutex around one cache for all threads. It
blocks signals by a libc call that a sanitizer may replace, and tests through a pipe whether an address can be read. A
fork child inherits the locks, locked for ever; a daemon closes the pipe and opens a file in its place.

The changed libunwind calls three hidden functions instead, which interpose/stacks/unwind_services.cpp defines:

    culprit_visit_module_at()   the one module that contains an address, found without a lock
    culprit_unwind_cache()      the calling thread's own cache of unwind rules, or none
    culprit_can_read()          whether eight bytes can be read

Every change names the text that it expects. A source with another text ends the build with a message here, before the
difference can do harm in a program.
"""

import pathlib
import re
import shutil
import sys

MACHINE = "x86_64"  # its folder in libunwind; a port starts in interpose/base/machine.h


class Source:
    def __init__(self, folder, name):
        self.path = folder / name
        if not self.path.exists():
            fail(f"{name} is missing")
        self.name = name
        self.text = self.path.read_text()

    def replace(self, expected, replacement, count=1):
        """`expected` (a regular expression) must be there exactly `count` times."""
        self.text, found = re.subn(expected, lambda _: replacement, self.text, flags=re.MULTILINE)
        if found != count:
            fail(f"{self.name}: {expected!r} found {found} times, expected {count}")

    def replace_body(self, function, body, occurrences=1):
        """The body of a function whose name stands at the beginning of a line, in GNU style."""
        pattern = rf"(^(?:\w[\w \t*]*[ \t*])?{re.escape(function)} ?\([^;{{]*\)\s*)\{{.*?^\}}"
        self.text, found = re.subn(
            pattern, lambda match: match.group(1) + "{\n" + body + "}", self.text, flags=re.MULTILINE | re.DOTALL
        )
        if found != occurrences:
            fail(f"{self.name}: function {function} found {found} times, expected {occurrences}")

    def save(self):
        self.path.write_text(self.text)


def fail(what):
    sys.exit(
        f"scripts/libunwind/patch.py: {what}: this version of libunwind is not the one that the changes were written "
        "for (1.6.2). Adapt scripts/libunwind/patch.py."
    )


def main():
    folder = pathlib.Path(sys.argv[1])

    # No locks and no blocking of signals: nothing is shared between threads any more, and a thread that unwinds has its
    # signals blocked by its caller.
    header = Source(folder, "include/libunwind_i.h")
    header.replace(r"^#pragma weak pthread_mutex_\w+\n", "", count=3)
    for name in ("mutex_init", "mutex_lock", "mutex_unlock"):
        header.replace(rf"^#define {name}\(l\)\s*\\\n.*\n", f"#define {name}(l) ((void) (l))\n")
    header.replace(r"^#if defined\(CONFIG_BLOCK_SIGNALS\)$", "#if 0")
    header.replace(
        r"^#endif /\* libunwind_i_h \*/",
        """struct dl_phdr_info;
HIDDEN int culprit_visit_module_at (unw_word_t address, int (*visit) (struct dl_phdr_info *, size_t, void *), void
*data); HIDDEN void *culprit_unwind_cache (size_t bytes); HIDDEN int culprit_can_read (unw_word_t address);

#endif /* libunwind_i_h */""",
    )
    header.save()

    shutil.copy(pathlib.Path(__file__).parent / "mempool.c", folder / "src/mi/mempool.c")

    # Threads that call it at the same time store the same values.
    source = Source(folder, f"src/{MACHINE}/Gglobal.c")
    source.replace_body(
        "tdep_init",
        f"""  mi_init ();
  dwarf_init ();
  {MACHINE}_local_addr_space_init ();
  atomic_store (&tdep_init_done, 1);
""",
    )
    source.save()

    source = Source(folder, f"src/{MACHINE}/Ginit.c")
    source.replace(r"^  memset \(&local_addr_space, 0, sizeof \(local_addr_space\)\);\n", "")
    source.replace_body("validate_mem", "  return culprit_can_read (addr) ? 0 : -1;\n")
    # The command looks names of functions up; here that would read /proc/self/maps, and files.
    source.replace_body("get_static_proc_name", "  return -UNW_ENOINFO;\n")
    # Removes the rest of the code for the pipe and for addresses that were valid before.
    begin = source.text.find("static int mem_validate_pipe[2]")
    end = source.text.find("static int\nvalidate_mem (")
    if begin < 0 or end < begin:
        fail(f"{source.name}: no memory validation between mem_validate_pipe and validate_mem")
    source.text = source.text[:begin] + source.text[end:]
    source.save()

    source = Source(folder, "src/mi/init.c")
    source.replace_body("unw_init_page_size", "  unw_page_size = 4096;\n")
    source.save()

    source = Source(folder, "src/dwarf/Gparser.c")
    source.replace_body(
        "get_rs_cache",
        """  struct dwarf_rs_cache *cache = culprit_unwind_cache (sizeof (*cache));
  if (cache == NULL)
    return NULL;
  if (atomic_load (&as->cache_generation) != atomic_load (&cache->generation) || !cache->hash)
    {
      cache->log_size = DWARF_DEFAULT_LOG_UNW_CACHE_SIZE;
      if (dwarf_flush_rs_cache (cache) < 0)
        return NULL;
      atomic_store (&cache->generation, atomic_load (&as->cache_generation));
    }
  return cache;
""",
    )
    source.replace_body("put_rs_cache", "")
    source.replace_body(
        "dwarf_flush_rs_cache",
        """  cache->hash = cache->default_hash;
  cache->buckets = cache->default_buckets;
  cache->links = cache->default_links;
  cache->log_size = DWARF_DEFAULT_LOG_UNW_CACHE_SIZE;
  cache->rr_head = 0;
  for (int i = 0; i < DWARF_UNW_CACHE_SIZE (cache->log_size); ++i)
    {
      cache->links[i].coll_chain = -1;
      cache->links[i].ip = 0;
      cache->links[i].valid = 0;
    }
  for (int i = 0; i < DWARF_UNW_HASH_SIZE (cache->log_size); ++i)
    cache->hash[i] = -1;
  return 0;
""",
    )
    source.save()

    source = Source(folder, "src/dwarf/Gfind_proc_info-lsb.c")
    source.replace(r"^  SIGPROCMASK \(SIG_SETMASK, &unwi_full_mask, &saved_mask\);\n", "")
    source.replace(r"^  SIGPROCMASK \(SIG_SETMASK, &saved_mask, NULL\);\n", "")
    source.replace(r"^  intrmask_t saved_mask;\n", "")
    source.replace(
        r"^  ret = dl_iterate_phdr \(dwarf_callback, &cb_data\);",
        "  ret = culprit_visit_module_at (ip, dwarf_callback, &cb_data);"
    )
    # libunwind's function would open the module's file, with libc's functions, in a hook.
    source.replace_body("dwarf_find_eh_frame_section", "  return 0;\n")
    source.save()


main()
