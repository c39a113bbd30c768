-- Pairs of allocation and free from LuaJIT's compiled code: luajit jit_pairs.lua COUNT (see jit.sh)
local ffi = require("ffi")
ffi.cdef[[
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxSetCurrent(void* context);
int cuMemAllocAsync(uint64_t* memory, size_t bytes, void* stream);
int cuMemFreeAsync(uint64_t memory, void* stream);
]]
local cuda = ffi.load("libcuda.so.1")
local context = ffi.new("void*[1]")
assert(cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(context, 0) == 0 and cuda.cuCtxSetCurrent(context[0]) == 0)
local memory = ffi.new("uint64_t[1]")
local begin = os.clock()
for i = 1, tonumber(arg[1]) do
  assert(cuda.cuMemAllocAsync(memory, 512 + i % 8, nil) == 0)
  assert(cuda.cuMemFreeAsync(memory[0], nil) == 0)
end
print(string.format("%.2f s", os.clock() - begin))
io.stdout:flush()
