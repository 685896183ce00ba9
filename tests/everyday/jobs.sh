# Jobs side by side, limits of time, locks between shells, and signals by name.
seq 1 8 | xargs -P 4 -n 1 sh -c 'sleep 0.0$1; echo $1' _ | sort -n | tr '\n' ' '
seq 1 6 | parallel -k -j3 'echo job {}; sleep 0.1' 2> parallel.log
timeout 0.2 sleep 5; echo $?
flock lock sh -c 'sleep 0.1; echo first' & sleep 0.05; flock lock echo second; wait
mkfifo fifo; (cat fifo > taken) & echo through a fifo > fifo; wait; cat taken
setsid -w sh -c 'exit 4'; echo $?
cp "$(command -v sleep)" ./gnomon-nap
./gnomon-nap 30 & sleep 0.1; killall gnomon-nap; wait $!; echo $?
./gnomon-nap 30 & sleep 0.1; pkill -x gnomon-nap; wait $!; echo $?
killall -q gnomon-nap; echo $?
