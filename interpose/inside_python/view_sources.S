// The Python sources of the view, each with a NUL behind it (view_sources.h).
    .macro SOURCE name, file
    .hidden \name
    .globl \name
\name:
    .incbin "\file"
    .byte 0
    .endm

    .section .rodata.culprit_view_sources, "a", @progbits
    SOURCE culprit_source_inside, inside.py
    SOURCE culprit_source_referrers, _referrers.py
    SOURCE culprit_source_readers, _readers.py
    SOURCE culprit_source_types, _types.py
    SOURCE culprit_source_torch_tensors, _torch_tensors.py
    SOURCE culprit_source_torch_workspaces, _torch_workspaces.py
    SOURCE culprit_source_native_holders, _native_holders.py
    SOURCE culprit_source_graph, _graph.py
    SOURCE culprit_source_view, _view.py
    .section .note.GNU-stack, "", @progbits
