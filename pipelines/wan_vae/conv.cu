// Causal 3 x 3 x 3 convolutions (and their smaller relatives) of channels-last bf16 pictures as implicit matrix
// products on Hopper's tensor cores.
//
// A block of threads makes ROWS x 16 pixels of one frame, BN output channels. For each of KT input frames and each
// group of CH input channels one tensor copy brings the (ROWS + 2) x 18 pixels around the tile to shared memory, zeros
// beyond the picture included, as [CH / 8][ROWS + 2][18][8]. In this layout (no swizzle; 8 channels of a pixel are 16
// bytes, the next pixel follows) the pixels under every tap of the kernel are the same matrix at another start address:
// what was fetched once serves all taps. Weights stream through a ring, a tap's CH x BN at a time, packed by the host
// in the order in which they are needed.
//
// Warps 4 i to 4 i + 3 multiply for rows 8 i to 8 i + 7 of the tile, as two products of 64 pixels (8 x 8) by BN; a thread
// of the last four fetches. Sums are float32; the result is rounded once.
//
// The KT - 1 frames before the input's first are those of `earlier`, a cache.
//
// In fp8 (e4m3) everything lies the same: two channels take the place of one, here called a channel still, and an
// instruction multiplies 32 of them. Each column of sums then has a factor of its own, given in `factors`.
//
// Given by the host: FP8 (1 or 0), BN, CH, KT, TAPS (9, 4 or 1), GROUPS (of four warps), STAGES (of the weights'
// ring), and PRODUCT, the instruction for BN columns.

// Compilers before CUDA 12.9 let the products wait for each other where sums are first written by one.
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1209
#define SUMS_AT_FIRST = {}
#else
#define SUMS_AT_FIRST
#endif

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

struct alignas(64) Map {
    u64 opaque[16];
};

constexpr int ROWS = 8 * GROUPS;
constexpr int PITCH = 18;
constexpr u32 PLANE = (ROWS + 2) * PITCH * 16;  // bytes of 8 channels
constexpr u32 A_BYTES = CH / 8 * PLANE;
constexpr u32 A_ROOM = (A_BYTES + 127) / 128 * 128;
constexpr u32 B_BYTES = BN * CH * 2;
constexpr int OUT_PITCH = BN + 8;                 // of a row of the staging area, in values: no bank twice
constexpr u32 OUT_BYTES = 16 * OUT_PITCH * 2;     // of a warp
constexpr u32 B_AT = 2 * A_ROOM;
constexpr u32 OUT_AT = B_AT + STAGES * B_BYTES;
constexpr u32 BARS_AT = OUT_AT + GROUPS * 4 * OUT_BYTES;

struct Shape {
    int frames, height, width;      // of the result, before the doubling of its sides where there are phases
    int chunks;                     // groups of CH input channels
    int n_tiles, channels;          // of the result
    int phases;                     // 1, or 4: the kernel runs on a picture that is doubled on the way
    int pairs;                      // 1, or 2: each input frame holds the channels of two
};

__device__ __forceinline__ u32 shared_address(const void* p) {
    return static_cast<u32>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void bar_init(u32 bar, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count));
}

__device__ __forceinline__ void bar_expect(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void bar_arrive(u32 bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

__device__ __forceinline__ void bar_wait(u32 bar, u32 parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(bar), "r"(parity) : "memory");
}

__device__ __forceinline__ void fetch_tile(u32 to, const Map* map, u32 bar, int w, int h, int f, int c8) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
        "l"(reinterpret_cast<u64>(map)), "r"(bar), "r"(0), "r"(w), "r"(h), "r"(f), "r"(c8)
        : "memory");
}

__device__ __forceinline__ void fetch_bytes(u32 to, const void* from, u32 bytes, u32 bar) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(bar)
        : "memory");
}

// A matrix of 8 x 8 bricks of 128 bytes: `along` bytes to the next brick of channels, `down` to the next eight rows.
__device__ __forceinline__ u64 matrix(u32 address, u32 along, u32 down) {
    return static_cast<u64>((address & 0x3FFFF) >> 4) | static_cast<u64>(along >> 4) << 16 |
           static_cast<u64>(down >> 4) << 32;
}

__device__ __forceinline__ void multiply(float (&sum)[BN / 2], u64 a, u64 b, int add) {
    asm volatile(PRODUCT : PRODUCT_SUMS(sum) : "l"(a), "l"(b), "r"(add));
}

struct Tile {
    int n, phase, frame, h, w;

    __device__ Tile(int index, const Shape& s) {
        int across = (s.width + 15) / 16, down = (s.height + ROWS - 1) / ROWS;
        n = index % s.n_tiles;
        index /= s.n_tiles;
        phase = index % s.phases;
        index /= s.phases;
        w = index % across * 16;
        index /= across;
        h = index % down * ROWS;
        frame = index / down;
    }
};

__device__ __forceinline__ int tiles_of(const Shape& s) {
    return s.n_tiles * s.phases * ((s.width + 15) / 16) * ((s.height + ROWS - 1) / ROWS) * s.frames;
}

__device__ __forceinline__ int tap_row(int tap, int phase) {
    return TAPS == 9 ? tap / 3 : TAPS == 4 ? tap / 2 + phase / 2 : 1;
}

__device__ __forceinline__ int tap_column(int tap, int phase) {
    return TAPS == 9 ? tap % 3 : TAPS == 4 ? tap % 2 + phase % 2 : 1;
}

__device__ __forceinline__ u32 pack(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// Where pixel (h, w) of a tile's frame lies in the result, in pixels.
__device__ __forceinline__ u64 place(const Tile& tile, int h, int w, const Shape& s) {
    if (s.phases == 1) return (static_cast<u64>(tile.frame) * s.height + h) * s.width + w;
    u64 line = static_cast<u64>(tile.frame) * 2 * s.height + 2 * h + tile.phase / 2;
    return line * 2 * s.width + 2 * w + tile.phase % 2;
}

// One product of 64 pixels to memory, by way of a staging area of the warp's own.
__device__ __forceinline__ void put(
    float (&sum)[BN / 2], u16* staging, const Tile& tile, int row0, int column0, const Shape& s, u16* y,
    const float* factors
) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    if constexpr (BN < 32) {  // few channels, and none too many to be stored one by one
#pragma unroll
        for (int i = 0; i < BN / 2; ++i) {
            int pixel = warp * 16 + lane / 4 + (i / 2 % 2) * 8, channel = i / 4 * 8 + lane % 4 * 2 + i % 2;
            int h = tile.h + row0 + pixel / 8, w = tile.w + column0 + pixel % 8;
            if (h < s.height && w < s.width && channel < s.channels)
                y[place(tile, h, w, s) * s.channels + channel] = static_cast<u16>(pack(sum[i], 0.0f));
        }
        return;
    }
    u32* words = reinterpret_cast<u32*>(staging);
    if constexpr (FP8) {
#pragma unroll
        for (int j = 0; j < BN / 8; ++j) {
            float2 by = *reinterpret_cast<const float2*>(factors + tile.n * BN + j * 8 + lane % 4 * 2);
            sum[4 * j] *= by.x;
            sum[4 * j + 1] *= by.y;
            sum[4 * j + 2] *= by.x;
            sum[4 * j + 3] *= by.y;
        }
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
        int at = (lane / 4) * (OUT_PITCH / 2) + j * 4 + lane % 4;
        words[at] = pack(sum[4 * j], sum[4 * j + 1]);
        words[at + 8 * (OUT_PITCH / 2)] = pack(sum[4 * j + 2], sum[4 * j + 3]);
    }
    __syncwarp();
    constexpr int VECTORS = BN / 8;
#pragma unroll
    for (int i = lane; i < 16 * VECTORS; i += 32) {
        int row = i / VECTORS, vector = i % VECTORS;
        int pixel = warp * 16 + row;
        int h = tile.h + row0 + pixel / 8, w = tile.w + column0 + pixel % 8;
        if (h < s.height && w < s.width)
            *reinterpret_cast<uint4*>(y + place(tile, h, w, s) * s.channels + tile.n * BN + vector * 8) =
                *reinterpret_cast<uint4*>(staging + row * OUT_PITCH + vector * 8);
    }
}

extern "C" __global__ void __launch_bounds__(GROUPS * 128 + 128, 1) convolve(
    const __grid_constant__ Map input, const __grid_constant__ Map earlier, const u16* weights, u16* y,
    const __grid_constant__ Shape s, const float* factors
) {
    extern __shared__ __align__(128) unsigned char memory[];
    const u32 base = shared_address(memory);
    const u32 bars = base + BARS_AT;  // a_full[2], a_empty[2], b_full[STAGES], b_empty[STAGES]
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            bar_init(bars + 8 * i, 1);
            bar_init(bars + 16 + 8 * i, GROUPS * 4);
        }
        for (int i = 0; i < STAGES; ++i) {
            bar_init(bars + 32 + 8 * i, 1);
            bar_init(bars + 32 + 8 * (STAGES + i), GROUPS * 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    const int tiles = tiles_of(s);
    const u32 b_full = bars + 32, b_empty = bars + 32 + 8 * STAGES;

    if (warp >= GROUPS * 4) {
        // The fetching warps need few registers, the multiplying ones all that there are.
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(GROUPS == 2 ? 40 : 32));
        if (threadIdx.x != GROUPS * 128) return;
        u32 a = 0, b = 0;  // how many were fetched
        for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
            Tile tile(index, s);
            const u16* from = weights + static_cast<u64>(tile.n * s.phases + tile.phase) * KT * s.chunks * TAPS * (BN * CH);
            int source = s.pairs == 2 ? tile.frame / 2 : tile.frame - (KT - 1);
            int c0 = s.pairs == 2 ? tile.frame % 2 * s.chunks * (CH / 8) : 0;
            for (int part = 0; part < KT * s.chunks; ++part) {
                u32 room = a % 2;
                bar_wait(bars + 16 + 8 * room, (a / 2 & 1) ^ 1);
                bar_expect(bars + 8 * room, A_BYTES);
                int frame = source + part / s.chunks;
                fetch_tile(
                    base + room * A_ROOM, frame < 0 ? &earlier : &input, bars + 8 * room, tile.w - 1, tile.h - 1,
                    frame < 0 ? frame + KT - 1 : frame, c0 + part % s.chunks * (CH / 8)
                );
                ++a;
                for (int tap = 0; tap < TAPS; ++tap, ++b, from += BN * CH) {
                    u32 stage = b % STAGES;
                    bar_wait(b_empty + 8 * stage, (b / STAGES & 1) ^ 1);
                    bar_expect(b_full + 8 * stage, B_BYTES);
                    fetch_bytes(base + B_AT + stage * B_BYTES, from, B_BYTES, b_full + 8 * stage);
                }
            }
        }
        return;
    }

    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(GROUPS == 2 ? 232 : 160));
    const int group = warp / 4;
    const bool speaks = threadIdx.x % 32 == 0;
    u16* staging = reinterpret_cast<u16*>(memory + OUT_AT + warp * OUT_BYTES);
    u32 a = 0, b = 0;
    float left[BN / 2] SUMS_AT_FIRST, right[BN / 2] SUMS_AT_FIRST;
    for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
        Tile tile(index, s);
        int add = 0;
        for (int part = 0; part < KT * s.chunks; ++part, ++a) {
            u32 room = a % 2;
            bar_wait(bars + 8 * room, a / 2 & 1);
#pragma unroll 1
            for (int tap = 0; tap < TAPS; ++tap, ++b) {
                u32 stage = b % STAGES;
                u32 corner = (group * 8 + tap_row(tap, tile.phase)) * PITCH + tap_column(tap, tile.phase);
                u64 a_matrix = matrix(base + room * A_ROOM + corner * 16, PLANE, PITCH * 16);
                u64 b_matrix = matrix(base + B_AT + stage * B_BYTES, BN * 16, 128);
                bar_wait(b_full + 8 * stage, b / STAGES & 1);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int k = 0; k < CH / 16; ++k) {
                    multiply(left, a_matrix, b_matrix, add);
                    multiply(right, a_matrix + 8, b_matrix, add);
                    add = 1;
                    a_matrix += 2 * PLANE / 16;
                    b_matrix += 2 * BN;
                }
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                // The products of the tap before are done: what they read may be overwritten.
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (speaks && !(part == 0 && tap == 0)) {
                    bar_arrive(b_empty + 8 * ((b - 1) % STAGES));
                    if (tap == 0) bar_arrive(bars + 16 + 8 * ((a - 1) % 2));
                }
            }
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (speaks) {
            bar_arrive(b_empty + 8 * ((b - 1) % STAGES));
            bar_arrive(bars + 16 + 8 * ((a - 1) % 2));
        }
        put(left, staging, tile, group * 8, 0, s, y, factors);
        put(right, staging, tile, group * 8, 8, s, y, factors);
    }
}
