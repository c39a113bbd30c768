// culprit_switch_stack(argument, work, top): see own_stack.cpp. `top` is a multiple of 16.
    .text
    .globl culprit_switch_stack
    .hidden culprit_switch_stack
    .type culprit_switch_stack, %function
culprit_switch_stack:
    .cfi_startproc
    stp x29, x30, [sp, #-16]!
    .cfi_def_cfa_offset 16
    .cfi_offset x29, -16
    .cfi_offset x30, -8
    mov x29, sp
    .cfi_def_cfa_register x29
    mov sp, x2
    blr x1
    mov sp, x29
    .cfi_def_cfa sp, 16
    ldp x29, x30, [sp], #16
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size culprit_switch_stack, .-culprit_switch_stack
    .section .note.GNU-stack, "", %progbits
