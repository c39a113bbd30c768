// Assembler macros for the exported functions (see generate_entries.cmake). x86-64 System V only.
//
// A thunk must not disturb the arguments of the function it stands for: the usual path is one compare and one jump. Only
// when SIMCUDA_FAIL names something are the argument registers saved and simcuda_injected_failure() asked.

.macro simcuda_entry name
  .section .rodata.str1.1, "aMS", @progbits, 1
.Lname_\name:
  .asciz "\name"
  .text
  .globl \name
  .type \name, @function
  .hidden sim_\name
  .p2align 4
\name:
  .cfi_startproc
  endbr64
  cmpb $0, simcuda_failures_armed(%rip)
  jne 1f
  jmp sim_\name
1:
  lea .Lname_\name(%rip), %r11
  lea sim_\name(%rip), %r10
  jmp simcuda_checked_entry
  .cfi_endproc
  .size \name, . - \name
.endm

.macro simcuda_alias name, target
  .text
  .weak \name
  .hidden \name
  .hidden \target
  .type \name, @function
\name:
  .cfi_startproc
  jmp \target
  .cfi_endproc
  .size \name, . - \name
.endm

.macro simcuda_not_supported name
  .text
  .weak \name
  .hidden \name
  .type \name, @function
\name:
  .cfi_startproc
  mov $801, %eax
  ret
  .cfi_endproc
  .size \name, . - \name
.endm

// struct { const char* name; void* address; } simcuda_exports[], sorted by name; simcuda_export_count.
.macro simcuda_table_begin
  .section .data.rel.ro, "aw", @progbits
  .p2align 4
  .globl simcuda_exports
  .hidden simcuda_exports
simcuda_exports:
.endm

.macro simcuda_table_row name
  .quad .Lname_\name
  .quad \name
.endm

.macro simcuda_table_end
  .globl simcuda_export_count
  .hidden simcuda_export_count
  .set simcuda_table_bytes, . - simcuda_exports
simcuda_export_count:
  .quad simcuda_table_bytes / 16
  .section .note.GNU-stack, "", @progbits
.endm

  .hidden simcuda_failures_armed
  .hidden simcuda_injected_failure
  .text
  .type simcuda_checked_entry, @function
// In: %r11 the exported name, %r10 the implementation, all argument registers as the caller left them.
simcuda_checked_entry:
  .cfi_startproc
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  push %r10
  sub $136, %rsp
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  mov %r11, %rdi
  call simcuda_injected_failure
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  add $136, %rsp
  pop %r10
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  pop %rbp
  .cfi_def_cfa %rsp, 8
  test %eax, %eax
  jne 1f
  jmp *%r10
1:
  ret
  .cfi_endproc
  .size simcuda_checked_entry, . - simcuda_checked_entry
