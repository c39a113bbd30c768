// culprit_switch_stack(argument, work, top): see own_stack.cpp. `top` is a multiple of 16.
    .text
    .globl culprit_switch_stack
    .hidden culprit_switch_stack
    .type culprit_switch_stack, @function
culprit_switch_stack:
    .cfi_startproc
    endbr64
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    mov %rdx, %rsp
    call *%rsi
    mov %rbp, %rsp
    pop %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size culprit_switch_stack, .-culprit_switch_stack
    .section .note.GNU-stack, "", @progbits
