// Team: the threads that share the blocks of a stream's kernels. Each member has a room in which it runs the threads of one block after another. Teams belong to one stream,
// so that work of two streams never meets in a thread.
#ifndef DELTA_TESTS_CUDA_TEAM_H_
#define DELTA_TESTS_CUDA_TEAM_H_

#include <emulated_launch.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct delta_emulated_team delta_emulated_team_t;

// NULL: no memory.
delta_emulated_team_t *delta_emulated_team_create(uint32_t members);
void delta_emulated_team_destroy(delta_emulated_team_t *team); // NULL is fine.
// Runs all blocks of a launch; the calling thread is a member.
void delta_emulated_team_run(delta_emulated_team_t *team, const delta_emulated_launch_t *launch);

// ---- One member's room (block.c)

typedef struct delta_emulated_room delta_emulated_room_t;

delta_emulated_room_t *delta_emulated_room_create(void);
void delta_emulated_room_destroy(delta_emulated_room_t *room);
// False: the block's threads wait for what does not come, which has been reported.
bool delta_emulated_room_run(delta_emulated_room_t *room, const delta_emulated_launch_t *launch, uint64_t block);

#endif // DELTA_TESTS_CUDA_TEAM_H_
