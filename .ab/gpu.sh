# usage: gpu.sh OUT
out=$1; root=$PWD
nvidia-smi -L; nproc
mk() {  # name, sed for launch.cuh, arch
  rm -rf /tmp/$1; mkdir /tmp/$1; tar c --exclude=./build --exclude=./.git . | tar x -C /tmp/$1; cd /tmp/$1
  sed -i "$2" common/device/launch.cuh
  cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES=$3 >/dev/null 2>&1
  cmake --build --preset cuda -j 8 > $out/$1.build 2>&1 || { echo "$1 build failed"; grep -m5 -E "error|FAILED" $out/$1.build; }
  cd $root
}
t0=$SECONDS
mk now 's/x/x/' 90 & 
mk small 's/return std::size_t(bytes);/return std::size_t(bytes) * 0 + 101376;/' 90 &
mk t4 's/return std::size_t(bytes);/return std::size_t(bytes) * 0 + 65536;/; s/return 10 . major + minor;/return (10 * major + minor) * 0 + 75;/' 75-virtual &
wait
echo "built in $((SECONDS-t0)) s"
cd /tmp/now; timeout -s KILL 150 ./learn bench --no-install --peers --repeat 10 --json $out/now.json 03 04 05 06 07 08 > $out/now.bench 2>&1; echo "bench now $?"
cd /tmp/small; timeout -s KILL 150 ./learn bench --no-install --peers --repeat 10 --json $out/small.json 04 05 06 07 08 > $out/small.bench 2>&1; echo "bench small $?"
cd /tmp/t4; timeout -s KILL 80 ./learn bench --no-install --json $out/t4.json --repeat 5 04 05 > $out/t4.bench 2>&1; echo "bench t4 $?"
cat $out/now.bench | tail -60
cd $out; tar czf all.tgz --remove-files *.build *.run *.bench *.test_ch* *.json; ls
