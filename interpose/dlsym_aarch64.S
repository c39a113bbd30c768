// dlsym(handle, name): see dlsym_x86_64.S.
    .text
    .globl dlsym
    .type dlsym, %function
dlsym:
    .cfi_startproc
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset 29, -32
    .cfi_offset 30, -24
    mov x29, sp
    stp x0, x1, [sp, #16]
    bl culprit_answer_dlsym
    mov x2, x0
    mov x3, x1
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    cbz x3, 1f
    mov x0, x2
    ret
1:  adrp x16, culprit_real_dlsym
    ldr x16, [x16, :lo12:culprit_real_dlsym]
    br x16
    .cfi_endproc
    .size dlsym, .-dlsym
    .section .note.GNU-stack, "", %progbits
