// The Python sources of the view (view_sources.S), as text.
#pragma once

extern "C" {
extern const char culprit_source_inside[] __attribute__((visibility("hidden")));
extern const char culprit_source_referrers[] __attribute__((visibility("hidden")));
extern const char culprit_source_readers[] __attribute__((visibility("hidden")));
extern const char culprit_source_types[] __attribute__((visibility("hidden")));
extern const char culprit_source_torch_tensors[] __attribute__((visibility("hidden")));
extern const char culprit_source_torch_workspaces[] __attribute__((visibility("hidden")));
extern const char culprit_source_native_holders[] __attribute__((visibility("hidden")));
extern const char culprit_source_graph[] __attribute__((visibility("hidden")));
extern const char culprit_source_view[] __attribute__((visibility("hidden")));
}
