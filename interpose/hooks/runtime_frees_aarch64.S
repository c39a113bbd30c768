// See runtime_frees_x86_64.S.
    .macro FORWARD function, number
    .globl \function
    .type \function, %function
\function:
    .cfi_startproc
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset 29, -32
    .cfi_offset 30, -24
    stp x0, x1, [sp, #16]
    mov x1, x30
    mov x0, #\number
    mov x29, sp
    bl culprit_runtime_target
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
    .size \function, .-\function
    .endm

    .text
    FORWARD cudaFree, 0
    FORWARD cudaFreeHost, 1
    FORWARD cudaFreeAsync, 2
    FORWARD cudaFreeAsync_ptsz, 3
    FORWARD cudaFreeArray, 4
    FORWARD cudaFreeMipmappedArray, 5
    FORWARD cudaHostUnregister, 6
    .section .note.GNU-stack, "", %progbits
