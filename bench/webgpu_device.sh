#!/bin/sh
# Runs bench/webgpu_bench.py on a machine that has an NVIDIA GPU and torch, but no compiler, no Vulkan loader and no
# network: everything of ours is carried in build/webgpu-device, which `bench/webgpu_device.sh pack` fills here.
#
#   bench/webgpu_device.sh pack                       # at home, after make build and bench/models.py
#   bench/webgpu_device.sh run [webgpu_bench.py's flags]      # there
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
carried=$root/build/webgpu-device

if [ "${1:-}" = pack ]; then
  mkdir -p "$carried"
  cp "$root/build/release/liveshape" "$root/build/release/bench_webgpu" "$carried/"
  strip "$carried/liveshape" "$carried/bench_webgpu"
  cp "$root"/build/deps/wgpu/*.so* "$carried/"
  cp -L "$(ldconfig -p | sed -n 's/.*libvulkan\.so\.1 .*=> //p' | head -1)" "$carried/libvulkan.so.1"
  for model in chain_f32 chain_f16 gemv_f16 normed_f16 head_f16 qwen3_512 qwen3_8192 qwen3_tiny; do
    gzip -c -1 "$root/build/bench/$model.pt2" > "$carried/$model.pt2.gz"
  done
  # The driver's own library, by name: the loader of the machine finds it.
  cat > "$carried/nvidia_icd.json" <<'JSON'
{"file_format_version": "1.0.0", "ICD": {"library_path": "libEGL_nvidia.so.0", "api_version": "1.3.277"}}
JSON
  du -sh "$carried"
  exit 0
fi

[ "${1:-}" = run ] && shift
LD_LIBRARY_PATH=$carried:${LD_LIBRARY_PATH:-}
LIVESHAPE_WGPU_LIBRARY=$(ls "$carried"/libwgpu_native*.so | head -1)
export LD_LIBRARY_PATH LIVESHAPE_WGPU_LIBRARY
export LIVESHAPE_BUILD="$carried" LIVESHAPE_MODELS="$carried"
export LIVESHAPE_WORK="${LIVESHAPE_WORK:-${TMPDIR:-/tmp}/liveshape-bench}"
if [ -z "${VK_ICD_FILENAMES:-}" ]; then
  export VK_ICD_FILENAMES="$carried/nvidia_icd.json" VK_DRIVER_FILES="$carried/nvidia_icd.json"
fi
chmod +x "$carried/liveshape" "$carried/bench_webgpu"
exec python3 "$root/bench/webgpu_bench.py" "$@"
