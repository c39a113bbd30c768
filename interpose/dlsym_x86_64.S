// dlsym(handle, name): asks culprit_answer_dlsym, and either returns its answer or jumps on to the real dlsym with the
// caller's own return address still on the stack, because dlsym resolves RTLD_NEXT and RTLD_DEFAULT relative to its caller.
    .text
    .globl dlsym
    .type dlsym, @function
dlsym:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    call culprit_answer_dlsym
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    test %rdx, %rdx
    jz 1f
    ret
1:  jmp *culprit_real_dlsym(%rip)
    .cfi_endproc
    .size dlsym, .-dlsym
    .section .note.GNU-stack, "", @progbits
