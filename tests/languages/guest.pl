# A guest in Perl: processes, pipes, sockets, signals. Prints the same in every run.
use strict;
use warnings;
use Fcntl qw(:flock);
use File::Temp qw(tempfile);
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use IPC::Open2;
use IPC::Open3;
use POSIX qw(:sys_wait_h);
use Socket;
use Symbol qw(gensym);
use Time::HiRes qw(alarm sleep time);

$| = 1;
my $main = $$;

# Three programs in one: standard input, output and errors of a child.
my $errors = gensym;
my $shell = open3(my $in, my $out, $errors, 'sh', '-c', 'cat; echo err >&2; exit 3');
print $in "line $_\n" for 1 .. 3;
close $in;
print 'out ', join('', <$out>), 'err ', <$errors>;
waitpid $shell, 0;
print 'status ', $? >> 8, "\n";
my $sort = open2(my $sorted, my $unsorted, 'sort', '-n');
print $unsorted map { "$_\n" } 5, 30, 1;
close $unsorted;
print 'sorted ', map { s/\n/ /r } <$sorted>;
waitpid $sort, 0;
print "\n", 'backticks ', `echo \$((6 * 7))`;
open my $pipe, '-|', 'seq 5' or die;
print 'pipe ', join(' ', map { chomp; $_ } <$pipe>), "\n";
print 'closed ', close($pipe) ? 'well' : 'badly', ' ', system('sh', '-c', 'exit 7') >> 8, "\n";

# Children that come home in any order.
my %children = map { my $n = $_; my $pid = fork // die; unless ($pid) { sleep 0.01 * (5 - $n); exit $n } ($pid => $n) } 1 .. 4;
my $sum = 0;
while ((my $pid = wait) > 0) { die unless $children{$pid} == $? >> 8; $sum += $? >> 8 }
print "children $sum\n";

# Signals: alarm interrupts what waits; CHLD tells of ends; a process group is killed as one.
my $start = time;
eval { local $SIG{ALRM} = sub { die "alarm\n" }; alarm 0.05; select undef, undef, undef, 100; };
print $@, time - $start < 50 ? "in time\n" : "late\n";
eval { local $SIG{ALRM} = sub { die "alarm while computing\n" }; alarm 0.05; 1 while 1; };
print $@;
{
    my $ended = 0;
    local $SIG{CHLD} = sub { $ended++ while waitpid(-1, WNOHANG) > 0 };
    for (1 .. 3) { fork // die or exit }
    sleep 0.01 while $ended < 3;
    print "ended $ended\n";
}
my $group = fork // die;
unless ($group) { setpgrp; exec 'sleep', 100 }
sleep 0.01 until getpgrp($group) == $group;
kill 'TERM', -$group;
waitpid $group, 0;
print 'signal ', $? & 127, "\n";

# A server that forks for each of its clients.
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die;
my $server = fork // die;
unless ($server) {
    for (1 .. 3) {
        my $client = $listener->accept;
        next if fork // die;
        while (<$client>) { print $client scalar reverse(s/\n//r), "\n" }
        exit;
    }
    1 while wait > 0;
    exit;
}
for my $word (qw(stressed drawer level)) {
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $listener->sockport) or die;
    print $socket "$word\n";
    print 'answer ', scalar <$socket>;
}
waitpid $server, 0;
socketpair(my $left, my $right, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die;
syswrite $left, 'pair';
my @ready = IO::Select->new($left, $right)->can_read(1);
sysread $ready[0], my $data, 10;
print scalar(@ready), " $data\n";

# A lock that two processes want.
my ($file, $name) = tempfile(UNLINK => 1);
my @adders = map { my $pid = fork // die; unless ($pid) { add() for 1 .. 20; POSIX::_exit(0) } $pid } 1 .. 3;
waitpid $_, 0 for @adders;
open my $counter, '<', $name or die;
print 'counted ', <$counter>, "\n";

sub add {
    open my $own, '+<', $name or die;
    flock $own, LOCK_EX;
    my $count = <$own> // 0;
    seek $own, 0, 0;
    print $own $count + 1;
    close $own;
}

# Only the first process ends by itself; the others leave their ends to it.
END { print "the end\n" if $$ == $main }
